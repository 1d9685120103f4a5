"""Runs libFuzzer's programs, each over its kept corpus and what earlier runs added."""

import os
from concurrent.futures import ThreadPoolExecutor

from builds import ROOT
from programs import error_line, exit_text, fixed_addresses, run_limited, sanitizer_environment
from report import Case

_SECONDS, _SECONDS_LONG = 5, 600


def run_fuzzers(build, fuzzers, options):
    seconds = _SECONDS_LONG if options.long else _SECONDS
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        return list(pool.map(lambda fuzzer: _run(build, fuzzer, seconds), fuzzers))


def _run(build, fuzzer, seconds):
    name = os.path.basename(fuzzer)
    kept = os.path.join(ROOT, "tests", "fuzz", "corpus", name.removesuffix("_fuzzer"))
    grown = os.path.join(build.folder, "corpus", name)
    artifacts = os.path.join(build.folder, "artifacts", name)
    for folder in (grown, artifacts):
        os.makedirs(folder, exist_ok=True)
    log = build.log_path(f"{name}.log")
    command = [*fixed_addresses(), fuzzer, f"-max_total_time={seconds}", "-timeout=30", "-rss_limit_mb=3000",
               "-print_final_stats=1", f"-artifact_prefix={artifacts}/", grown]
    command += [kept] if os.path.isdir(kept) else []
    code, took = run_limited(command, log, seconds * 2 + 180, sanitizer_environment())
    if code == 0:
        return Case(f"{name} for {seconds} s", "passed", took)
    reason = "did not stop in time" if code is None else f"{exit_text(code)}: {error_line(log)}"
    return Case(f"{name} for {seconds} s", "failed", took, reason, log)
