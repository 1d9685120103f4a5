"""Runs a folder of cases, tests/e2e or tests/hostile, each in a process of its own."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tests", "runner"))

from programs import fixed_addresses, sanitizer_environment  # noqa: E402  (needs the path above)
from report import Case, close_part, print_case  # noqa: E402

_SKIPPED, _FAILED, _NO_CASE = 77, 1, 2
_CLEANUP_SECONDS_MAX = 20
_REASON_MAX = 1500  # characters; the report of a standstill is the longest
_PATIENCE = 3  # cases state how long they take alone; in a run others compete with them


def _options(folder, description):
    name = os.path.basename(folder)
    parser = argparse.ArgumentParser(prog=f"tests/{name}", description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only cases whose name has all these words")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--any", default="", help="only cases whose name has one of these words, joined by |")
    parser.add_argument("--uroced", help="another daemon than the build's: one under AddressSanitizer")
    parser.add_argument("--report", help="write the cases here, for tests/run.sh")
    parser.add_argument("--part", default=name, help=argparse.SUPPRESS)  # prefix of the printed lines and of the log folder
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--long", action="store_true", help="more operations where a case can")
    parser.add_argument("--list", action="store_true", help="only name the cases")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # the process of one case
    return parser.parse_args()


def _flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _flatten(item)
        else:
            yield item


def _discover(folder):
    return list(_flatten(unittest.TestLoader().discover(folder, pattern="test_*.py", top_level_dir=folder)))


def _run_one(name):
    """In the case's own process: the exit code says the outcome, the last line of output the reason."""
    def stop(*_):
        raise TimeoutError("took too long")
    signal.signal(signal.SIGTERM, stop)
    result = unittest.TestResult()
    unittest.TestLoader().loadTestsFromName(name).run(result)
    for _, trace in result.errors + result.failures:
        print(trace)
    if not result.wasSuccessful():
        return _FAILED
    if result.skipped:
        print(result.skipped[0][1])
        return _SKIPPED
    return 0


def _run(test, folder, options):
    name = test.id()
    logs = os.path.join(options.build, "test-logs", options.part, name)
    shutil.rmtree(logs, ignore_errors=True)
    os.makedirs(logs)
    daemon = [*fixed_addresses(), options.uroced] if options.uroced else []
    environment = {**(sanitizer_environment() if daemon else os.environ),
                   "UROCE_E2E_BUILD": os.path.abspath(options.build), "UROCE_E2E_LOGS": logs,
                   "UROCE_E2E_UROCED": " ".join(daemon)}
    output = os.path.join(logs, "case.out")
    start = time.monotonic()
    with open(output, "w", encoding="utf-8") as out:
        process = subprocess.Popen([sys.executable, folder, "--one", name], stdout=out, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, env=environment, start_new_session=True)
        try:
            code = process.wait(timeout=getattr(test, "seconds_max", 180) * _PATIENCE)
        except subprocess.TimeoutExpired:
            code = _stop(process)
    seconds = time.monotonic() - start
    with open(output, encoding="utf-8", errors="replace") as text:
        lines = [line for line in text.read().splitlines() if line.strip()]
    last = lines[-1] if lines else "no output"
    if code == 0:
        return Case(name, "passed", seconds)
    if code == _SKIPPED:
        return Case(name, "skipped", seconds, last)
    return Case(name, "failed", seconds, last[:_REASON_MAX], logs)


def _stop(process):
    """SIGTERM lets the case clean up; what it started dies with it in any case."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=_CLEANUP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    return _FAILED


def main(folder, description):
    options = _options(folder, description)
    if options.one:
        return _run_one(options.one)
    os.environ["UROCE_E2E_LONG"] = "1" if options.long else ""  # before the cases are imported: their time limits depend on it
    tests = [test for test in _discover(folder) if all(word in test.id() for word in options.words)
             and any(word in test.id() for word in options.any.split("|"))]
    if not tests:  # a mistyped word must not look like success
        print(f"tests/{os.path.basename(folder)}: no case's name has the words; --list names all cases", file=sys.stderr)
        return _NO_CASE
    if options.list:
        print("\n".join(test.id() for test in tests))
        return 0

    def run(test):
        case = _run(test, folder, options)
        print_case(options.part, case)
        if not options.report:
            print(f"  {case.outcome:7} {case.seconds:6.1f} s  {case.name}"
                  + (f": {case.reason}" if case.outcome == "skipped" else ""), flush=True)
        return case

    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        cases = list(pool.map(run, tests))
    return close_part(cases, options.report)

