"""The parts of a test run. Each is a function of the options that returns its cases."""

import os
import subprocess
import sys

from builds import ROOT, Build
from fuzzers import run_fuzzers
from programs import error_line, exit_text, run_limited, run_programs
from reasons import Reasons
from remembered import Remembered
from report import Case, read_cases

_SUITES = ("unit", "conformance", "sim")
_BENCH_SECONDS_MAX = 300
_DTS_SECONDS_MAX = 1200
# The cases for a daemon with AddressSanitizer in the ordinary run: each kind of request once, and an unclean end.
_E2E_ASAN_WORDS = "test_pingpong|test_srq|test_xrc|test_events|test_errors|test_death"


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
    for test in tests:
        test["files"] = [path for target in test["depends"] for path in files[target]]
    programs = sorted({build.path_in(word) for test in tests for word in [*test["cmd"], *test["files"]]
                       if os.path.normpath(word).startswith(build.folder + "/")})
    if not programs:
        return build, [], []
    made = build.make(programs, options.jobs)
    return build, tests if made.outcome == "passed" else [], [made]


def _made(name, options, targets=()):
    """Configures and builds these targets, or all. Returns (build, the case that failed or None)."""
    build = Build(name)
    for case in (build.configure(), build.make(targets, options.jobs)):
        if case.outcome == "failed":
            return build, case
    return build, None


def _many_seeds(options):
    return {"UROCE_SIM_SEEDS": "10000", "UROCE_CM_SIM_SEEDS": "100000"} if options.long else {}


def unit(options):
    """The release build: unit, conformance and simulation."""
    build, failed = _made("build", options)
    if failed:
        return [failed]
    build, tests, cases = _prepared("build", options, lambda suites: suites & set(_SUITES))
    reasons, remembered = Reasons(build), Remembered(build, options.long)
    environment = {**_many_seeds(options), **reasons.environment}
    reasons.forget_all_but({os.path.basename(test["cmd"][0]) for test in tests
                            if remembered.unchanged(test, environment)})
    cases += run_programs(build, tests, options.jobs, environment=environment, remembered=remembered)
    return [*cases, reasons.case()]


def asan(options):
    """The same, built by clang, under AddressSanitizer and UndefinedBehaviorSanitizer; seeds that `unit` doesn't run."""
    build, tests, cases = _prepared("build-asan", options, lambda suites: suites & set(_SUITES))
    # Ten times slower: fewer of the connection manager's.
    seeds = {"UROCE_CM_SIM_SEEDS": "500", "UROCE_FIRST_SEED": "1000001"}
    return cases + run_programs(build, tests, options.jobs, sanitized=True, environment=seeds,
                                remembered=Remembered(build, options.long))


def tsan(options):
    """The programs with threads (suite 'tsan') under ThreadSanitizer."""
    build, tests, cases = _prepared("build-tsan", options, lambda suites: "tsan" in suites)
    return cases + run_programs(build, tests, options.jobs, sanitized=True, remembered=Remembered(build, options.long))


def fuzz(options):
    """Each fuzzer under ASan and UBSan: 5 s, with --long 600 s."""
    build = Build("build-asan")
    configured = build.configure()
    if configured.outcome == "failed":
        return [configured]
    fuzzers = [target["filename"][0] for target in build.introspect("targets")
               if target["name"].endswith("_fuzzer")]
    if not fuzzers:
        return [Case("fuzzers", "failed", 0, f"{build.folder} was configured without them: remove it")]
    made = build.make([build.path_in(fuzzer) for fuzzer in fuzzers], options.jobs)
    return [made] if made.outcome == "failed" else [made, *run_fuzzers(build, fuzzers, options)]


def bench(options):
    """Starts each benchmark briefly: it must run; its figures aren't checked."""
    build, tests, cases = _prepared("build", options, lambda suites: "bench" in suites)
    for test in tests:
        log = build.log_path(f"{test['name']}.log")
        code, seconds = run_limited(test["cmd"], log, _BENCH_SECONDS_MAX, {**os.environ, **test["env"]})
        reason = "" if code == 0 else f"{exit_text(code)}: {error_line(log)}"
        cases.append(Case(test["name"], "passed" if code == 0 else "failed", seconds, reason, log))
    return cases


def _sub_runner(folder, options, name, *arguments):
    """tests/tidy and tests/e2e run by themselves too; they hand their cases over in a file."""
    build = Build("build")
    report = build.log_path(f"{name}.cases")
    if os.path.exists(report):
        os.remove(report)
    command = [sys.executable, os.path.join(ROOT, "tests", folder), "--report", report, "--part", name,
               "--jobs", str(options.jobs), *arguments]
    code = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    if not os.path.exists(report):
        return [Case(f"{name} runner", "failed", 0, f"{exit_text(code)} and no report")]
    return read_cases(report)


def e2e(options):
    """Unmodified programs against real daemons."""
    build, failed = _made("build", options)
    if failed:
        return [failed]
    return _sub_runner("e2e", options, "e2e", "--build", build.folder, *(["--long"] if options.long else []))


def hostile(options):
    """Attackers of another user against a victim and the daemon that serves both."""
    build, failed = _made("build", options)
    if failed:
        return [failed]
    return _sub_runner("hostile", options, "hostile", "--build", build.folder, *(["--long"] if options.long else []))


def guests(options):
    """Linux's kernel at the other end: its Soft-RoCE in an emulated machine, with unmodified programs."""
    build, failed = _made("build", options)
    if failed:
        return [failed]
    # One at a time: a guest has two processors, which are emulated.
    return _sub_runner("guests", options, "guests", "--build", build.folder, "--jobs", "1", *(["--long"] if options.long else []))


def e2e_asan(options):
    """Some of the same, against a daemon under AddressSanitizer; with --long all."""
    build, failed = _made("build", options)
    sanitized, failed_sanitized = _made("build-asan", options, ["apps/uroced"])
    if failed or failed_sanitized:
        return [failed or failed_sanitized]
    words = [] if options.long else ["--any", _E2E_ASAN_WORDS]
    return _sub_runner("e2e", options, "e2e_asan", "--build", build.folder,
                       "--uroced", os.path.join(sanitized.folder, "apps", "uroced"), *words)


def dts(options):
    """The card from outside, packet by packet: dts/local/run.py."""
    build, failed = _made("build", options)
    if failed:
        return [failed]
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
    """The rules of style.md and design.md that a program can check; clang-tidy over what was changed, with --long over all."""
    return _sub_runner("tidy", options, "tidy", *([] if options.long else ["--changed"]))


def packages(options):
    """Debian packages, made and run in clean roots of Debian 12 and 13, and a container that gets the card; only with --long."""
    if not options.long:
        return [Case("packages", "skipped", 0, "it builds everything twice more; --long does it")]
    subprocess.run([os.path.join(ROOT, "apps", "install-packages.sh"), "package"], check=True)
    return _sub_runner("packages", options, "packages", "--suite", "bookworm", "--suite", "trixie")


def arm64(options):
    """Cross-built for arm64: unit tests and unmodified programs in an emulated machine; only with --long."""
    if not options.long:
        return [Case("arm64", "skipped", 0, "it builds everything once more and emulates a processor; --long does it")]
    return _sub_runner("arm64", options, "arm64")


PARTS = {part.__name__: part for part in (unit, e2e, hostile, guests, dts, tidy, asan, fuzz, tsan, bench, e2e_asan, packages,
                                          arm64)}
# Two rows of parts, side by side: those that keep processors busy, and those that mostly wait.
TRACKS = (("unit", "asan", "fuzz", "tsan", "bench", "arm64"), ("e2e", "hostile", "guests", "dts", "tidy", "e2e_asan", "packages"))
