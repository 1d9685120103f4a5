"""The parts of a test run. Each is a function of the options that returns its cases."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from builds import ROOT, Build
from programs import (error_line, exit_text, fixed_addresses, run_limited, run_programs,
                      sanitizer_environment)
from reasons import Reasons
from report import Case, read_cases

_SUITES = ("unit", "conformance", "sim")
_FUZZ_SECONDS, _FUZZ_SECONDS_LONG = 5, 600
_BENCH_SECONDS_MAX = 120
_DTS_SECONDS_MAX = 600


def _suites(test):
    return {suite.split(":")[-1] for suite in test["suite"]}


def _prepared(name, options, pick):
    """Configures and builds what the picked tests need. Returns (build, tests, cases of the build)."""
    build = Build(name)
    configured = build.configure()
    if configured.outcome == "failed":
        return build, [], [configured]
    tests = [test for test in build.introspect("tests") if pick(_suites(test))]
    files = {target["id"]: target["filename"] for target in build.introspect("targets")}
    programs = sorted({build.path_in(word) for test in tests
                       for word in [*test["cmd"], *(path for target in test["depends"] for path in files[target])]
                       if os.path.normpath(word).startswith(build.folder + "/")})
    if not programs:
        return build, [], []
    made = build.make(programs, options.jobs)
    return build, tests if made.outcome == "passed" else [], [made]


def _seeds(options):
    return {"UROCE_SIM_SEEDS": "10000", "UROCE_CM_SIM_SEEDS": "100000"} if options.long else {}


def unit(options):
    """The release build: unit, conformance and simulation."""
    build = Build("build")
    configured = build.configure()
    if configured.outcome == "failed":
        return [configured]
    made = build.make([], options.jobs)
    if made.outcome == "failed":
        return [made]
    tests = [test for test in build.introspect("tests") if _suites(test) & set(_SUITES)]
    reasons = Reasons(build)
    cases = run_programs(build, tests, options.jobs, environment={**_seeds(options), **reasons.environment})
    return [made, *cases, reasons.case()]


def asan(options):
    """The same, built by clang, under AddressSanitizer and UndefinedBehaviorSanitizer."""
    build, tests, cases = _prepared("build-asan", options, lambda suites: suites & set(_SUITES))
    seeds = {"UROCE_CM_SIM_SEEDS": "500"}  # ten times slower, and each seed was seen without
    return cases + run_programs(build, tests, options.jobs, sanitized=True, environment=seeds)


def tsan(options):
    """What has threads (suite 'tsan') under ThreadSanitizer."""
    build, tests, cases = _prepared("build-tsan", options, lambda suites: "tsan" in suites)
    return cases + run_programs(build, tests, options.jobs, sanitized=True)


def fuzz(options):
    """Builds all with clang, then runs each fuzzer under ASan and UBSan, two at a time."""
    build = Build("build-asan")
    for case in (build.configure(), build.make([], options.jobs)):
        if case.outcome == "failed":
            return [case]
    fuzzers = [target["filename"][0] for target in build.introspect("targets")
               if target["name"].endswith("_fuzzer")]
    if not fuzzers:
        return [Case("fuzzers", "failed", 0, f"{build.folder} was configured without them: remove it")]
    seconds = _FUZZ_SECONDS_LONG if options.long else _FUZZ_SECONDS
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        return [case, *pool.map(lambda fuzzer: _fuzz_one(build, fuzzer, seconds), fuzzers)]


def _fuzz_one(build, fuzzer, seconds):
    name = os.path.basename(fuzzer)
    kept = os.path.join(ROOT, "tests", "fuzz", "corpus", name.removesuffix("_fuzzer"))
    grown = os.path.join(build.folder, "corpus", name)
    artifacts = os.path.join(build.folder, "artifacts", name)
    for folder in (grown, artifacts):
        os.makedirs(folder, exist_ok=True)
    log = build.log_path(f"{name}.log")
    command = [*fixed_addresses(), fuzzer, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=3000",
               "-print_final_stats=1", f"-artifact_prefix={artifacts}/", grown]
    command += [kept] if os.path.isdir(kept) else []
    code, took = run_limited(command, log, seconds * 2 + 60, sanitizer_environment())
    if code == 0:
        return Case(f"{name} for {seconds} s", "passed", took)
    reason = "did not stop in time" if code is None else f"{exit_text(code)}: {error_line(log)}"
    return Case(f"{name} for {seconds} s", "failed", took, reason, log)


def bench(options):
    """Starts each benchmark briefly: it must run, its figures don't decide."""
    build, tests, cases = _prepared("build", options, lambda suites: "bench" in suites)
    for test in tests:
        log = build.log_path(f"{test['name']}.log")
        code, seconds = run_limited(test["cmd"], log, _BENCH_SECONDS_MAX, {**os.environ, **test["env"]})
        reason = "" if code == 0 else f"{exit_text(code)}: {error_line(log)}"
        cases.append(Case(test["name"], "passed" if code == 0 else "failed", seconds, reason, log))
    return cases


def _sub_runner(folder, options, *arguments):
    """tests/tidy and tests/e2e run by themselves too; they hand their cases over in a file."""
    build = Build("build")
    report = build.log_path(f"{folder}.cases")
    if os.path.exists(report):
        os.remove(report)
    command = [sys.executable, os.path.join(ROOT, "tests", folder), "--report", report,
               "--build", build.folder, "--jobs", str(options.jobs), *arguments]
    code = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    if not os.path.exists(report):
        return [Case(f"{folder} runner", "failed", 0, f"{exit_text(code)} and no report")]
    return read_cases(report)


def e2e(options):
    """Unmodified programs against real daemons."""
    build = Build("build")
    for case in (build.configure(), build.make([], options.jobs)):
        if case.outcome == "failed":
            return [case]
    return _sub_runner("e2e", options, *(["--long"] if options.long else []))


def dts(options):
    """The card from outside, packet by packet: dts/local/run.py."""
    build = Build("build")
    for case in (build.configure(), build.make([], options.jobs)):
        if case.outcome == "failed":
            return [case]
    log, report = build.log_path("dts.log"), build.log_path("dts.cases")
    if os.path.exists(report):
        os.remove(report)
    code, seconds = run_limited([sys.executable, os.path.join(ROOT, "dts", "local", "run.py"), "--build", build.folder,
                                 "--report", report], log, _DTS_SECONDS_MAX, os.environ)
    if not os.path.exists(report):
        return [Case("dts/local/run.py", "failed", seconds, f"{exit_text(code)} and no report", log)]
    cases = read_cases(report)
    for case in cases:
        case.log = log
    return cases


def tidy(options):
    """The rules of style.md and design.md that a program can check; with --long also clang-tidy."""
    configured = Build("build").configure()  # clang-tidy reads its compile commands
    if configured.outcome == "failed":
        return [configured]
    return _sub_runner("tidy", options, *([] if options.long else ["--fast"]))


PARTS = {part.__name__: part for part in (unit, e2e, dts, tidy, asan, tsan, fuzz, bench)}
