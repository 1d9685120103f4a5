"""Builds for arm64 by Debian's cross compiler, and runs unit tests and unmodified programs over a daemon in an emulated machine.

  /usr/bin/python3 tests/arm64                  everything; build-arm64/ and what was fetched are used again the next time
  /usr/bin/python3 tests/arm64 --unit mmu wire  only unit tests whose name begins so

Needs root and once the network; installs the packages of apps/packages.txt's group arm64. tests/run.sh --long runs it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TREE, "tests", "runner"))

from cross_build import build  # noqa: E402  (the path above comes first)
from machine import run_in_machine  # noqa: E402
from report import Case, close_part, print_case  # noqa: E402
from root import Root  # noqa: E402

_FOLDER = os.path.join(TREE, "build-arm64")
_LOGS = os.path.join(_FOLDER, "test-logs")
# Programs and what they run there: what depends on the processor, and threads that share memory without locks. Others take long
# under emulation and have nothing of their own on arm64.
_TESTS = {
    "base": ("tests/unit/base/base_test", ""),
    "wire": ("tests/unit/wire/wire_test", ""),
    "mmu": ("tests/unit/mmu/mmu_test", ""),
    "shim_memory": ("tests/unit/shim_memory/shim_memory_test", ""),
    "call_filter": ("tests/unit/control/control_test", "--gtest_filter=CallFilter*"),
}
_TEST_SECONDS_MAX = 900
_MACHINE_SECONDS_MAX = 7200
_SKIPPED = 77  # exit code
_LAST_CASE = "end"


def _options():
    parser = argparse.ArgumentParser(prog="tests/arm64", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unit", nargs="+", metavar="NAME", help="only these unit tests, and no programs over a daemon")
    parser.add_argument("--report", help="write the cases here, for tests/run.sh")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # always arm64
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    return parser.parse_args()


def _step(name, log, function):
    """Its Case, and what it returned."""
    begun = time.monotonic()
    try:
        result, reason = function(), ""
    except (OSError, subprocess.SubprocessError, ValueError) as problem:
        result, reason = None, f"{problem}"[:300]
    return Case(name, "failed" if reason else "passed", time.monotonic() - begun, reason, log), result


def _cases_of(work):
    """What inside.sh has written: a line a case."""
    with open(os.path.join(work, "cases"), encoding="ascii") as lines:
        rows = [line.split() for line in lines]
    cases = []
    for name, code, seconds in (row for row in rows if len(row) == 3):
        outcome = {"0": "passed", str(_SKIPPED): "skipped"}.get(code, "failed")
        cases.append(Case(name, outcome, float(seconds), "" if code == "0" else f"exit code {code}", os.path.join(work, f"{name}.log")))
    if [_LAST_CASE] not in rows:
        cases.append(Case("machine", "failed", 0, "it ended before all cases were run", os.path.join(_LOGS, "console")))
    return cases


def _run_in_machine(root, tests, with_programs):
    work = os.path.join(_LOGS, "machine")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    with open(os.path.join(work, "tests"), "w", encoding="ascii") as text:
        for name in tests:
            program, arguments = _TESTS[name]
            text.write(f"{name} {_TEST_SECONDS_MAX} {os.path.join(_FOLDER, program)} {arguments}\n")
    if with_programs:
        with open(os.path.join(work, "programs"), "w", encoding="ascii"):
            pass
    console = os.path.join(_LOGS, "console")
    case, _ = _step("emulated machine", console, lambda: run_in_machine(root, TREE, _FOLDER, work, _MACHINE_SECONDS_MAX, console))
    return [case, *_cases_of(work)] if case.outcome == "passed" else [case]


def _cases(options):
    os.makedirs(_LOGS, exist_ok=True)
    subprocess.run([os.path.join(TREE, "apps", "install-packages.sh"), "build", "arm64"], check=True)
    case, root = _step("root for arm64", os.path.join(_LOGS, "root.log"), lambda: Root(TREE, os.path.join(_LOGS, "root.log")))
    cases = [case]
    if root is None:
        return cases
    tests = [name for name in _TESTS if not options.unit or any(name.startswith(word) for word in options.unit)]
    targets = [_TESTS[name][0] for name in tests] if options.unit else ["all"]
    log = os.path.join(_LOGS, "build.log")
    case, _ = _step("build", log, lambda: build(TREE, _FOLDER, root, targets, options.jobs, log))
    cases.append(case)
    return [*cases, *_run_in_machine(root, tests, not options.unit)] if case.outcome == "passed" else cases


def main():
    options = _options()
    if os.geteuid() != 0:
        sys.exit("tests/arm64: only root can make a root of another architecture")
    cases = _cases(options)
    for case in cases:
        if options.report is None:
            print(f"  {case.outcome:8} {case.seconds:6.1f} s  {case.name}{': ' + case.reason if case.reason else ''}")
        print_case("arm64", case)
    return close_part(cases, options.report)


if __name__ == "__main__":
    sys.exit(main())
