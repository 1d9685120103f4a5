"""Runs the test programs that meson knows. GoogleTest's cases count one by one."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor

from report import Case

# setarch -R: address randomisation of newer kernels breaks the sanitizers of gcc 12 and clang 14.
_FIXED_ADDRESSES = ["setarch", "-R"]
_SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "abort_on_error=0:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    # die_after_fork: tests of fork start threads in the child, as programs do.
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:die_after_fork=0:suppressions="
                    + os.path.join(os.path.dirname(os.path.abspath(__file__)), "tsan.supp"),
}


def run_limited(command, log, seconds_max, environment=None, cwd=None):
    """Runs a command in a process group of its own; returns (exit code or None on time-out, seconds)."""
    start = time.monotonic()
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment,
                                   stdin=subprocess.DEVNULL, cwd=cwd, start_new_session=True)
        try:
            code = process.wait(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end_group(process)
    return code, time.monotonic() - start


def _end_group(process):
    """Kills the rest of the process group that this runner started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def sanitizer_environment():
    return {**os.environ, **_SANITIZER_OPTIONS}


def fixed_addresses():
    works = subprocess.run([*_FIXED_ADDRESSES, "true"], capture_output=True, check=False)
    return _FIXED_ADDRESSES if works.returncode == 0 else []


def run_programs(build, tests, jobs, sanitized=False, environment=None, remembered=None):
    """`tests` as meson introspects them. Returns their cases; one for a program that is remembered (remembered.py)."""
    given = environment or {}

    def run(test):
        if remembered and remembered.unchanged(test, given):
            return [Case(test["name"], "skipped", 0, "it passed and nothing that it is given has changed (CI=true runs it)")]
        cases = _run_program(build, test, sanitized, given)
        if remembered:
            remembered.note(test, given, all(case.outcome == "passed" for case in cases))
        return cases

    # The longest begin first, so that no processor is idle at the end.
    ordered = sorted(tests, key=lambda test: -_seconds_before(build, test))
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        return [case for cases in pool.map(run, ordered) for case in cases]


def _seconds_before(build, test):
    """The program's duration in this folder the last time; for a new one, its meson time-out."""
    try:
        with open(build.log_path("seconds", test["name"]), encoding="utf-8") as text:
            return float(text.read())
    except (OSError, ValueError):
        return test["timeout"]


# Meson's time-outs are for a machine that does nothing else. They only end hanging programs.
_PATIENCE, _PATIENCE_SANITIZED = 5, 15


def _run_program(build, test, sanitized, extra):
    log = build.log_path(f"{test['name']}.log")
    xml = build.log_path(f"{test['name']}.xml")
    if os.path.exists(xml):
        os.remove(xml)
    folder = tempfile.mkdtemp(prefix="uroce-test-")
    environment = {**(sanitizer_environment() if sanitized else os.environ), **test["env"], **extra,
                   "GTEST_OUTPUT": f"xml:{xml}", "TMPDIR": folder}
    command = [*(fixed_addresses() if sanitized else []), *test["cmd"]]
    try:
        patience = _PATIENCE_SANITIZED if sanitized else _PATIENCE
        code, seconds = run_limited(command, log, test["timeout"] * patience, environment,
                                    test.get("workdir") or folder)
        with open(build.log_path("seconds", test["name"]), "w", encoding="utf-8") as out:
            out.write(f"{seconds:.1f}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    cases = _gtest_cases(test["name"], xml, log)
    if code == 0 and cases:
        return cases
    return [*cases, *_whole_program_case(test, cases, code, seconds, log)]


def _whole_program_case(test, cases, code, seconds, log):
    name = test["name"]
    if code == 0 and test["protocol"] == "gtest":  # exited early, after an unknown case
        return [Case(name, "failed", seconds, "exit code 0, but no report of its cases", log)]
    if code == 0:
        return [Case(name, "passed", seconds)]
    if code == 77:  # automake's and meson's way to say skipped
        return [Case(name, "skipped", seconds, last_line(log))]
    if any(case.outcome == "failed" for case in cases):
        return []  # the exit code says no more than its cases do
    reason = f"took longer than {seconds:.0f} s" if code is None else f"{exit_text(code)}: {error_line(log)}"
    return [Case(name, "failed", seconds, reason, log)]


def _gtest_cases(program, xml, log):
    if not os.path.exists(xml):
        return []
    try:
        tree = ElementTree.parse(xml)
    except ElementTree.ParseError:
        return []
    cases = []
    for node in tree.iter("testcase"):
        if node.get("status") == "notrun":
            continue
        name = f"{program} {node.get('classname')}.{node.get('name')}"
        failure, skipped = node.find("failure"), node.find("skipped")
        outcome = "failed" if failure is not None else "skipped" if skipped is not None else "passed"
        reason = " ".join((failure.get("message") or "").split())[:300] if failure is not None else ""
        if skipped is not None:
            reason = (skipped.get("message") or "").strip().splitlines()[-1:] or [""]
            reason = reason[0]
        cases.append(Case(name, outcome, float(node.get("time") or 0), reason, log))
    return cases


def exit_text(code):
    if code is not None and code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"exit code {code}"


def error_line(log):
    """The most informative line: a sanitizer's or an assertion's, else the last one."""
    before = ""
    with open(log, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if "libFuzzer: deadly signal" in line and before:  # the program ended itself, and has just said why
                return before[:300]
            if any(word in line for word in ("ERROR: ", "runtime error:", "WARNING: ThreadSanitizer",
                                             "check failed", "Assertion")):
                return line.strip()[:300]
            before = line.strip()
    return last_line(log)


def last_line(log):
    with open(log, encoding="utf-8", errors="replace") as text:
        lines = [line.strip() for line in text.read().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no output"
