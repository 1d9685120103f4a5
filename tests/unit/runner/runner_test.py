#!/usr/bin/env python3
"""How the runners count outcomes: a failed case is never counted as passed or skipped."""

import contextlib
import importlib.util
import io
import os
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "tests", "runner"), os.path.dirname(os.path.abspath(__file__))]

import programs  # noqa: E402  (needs the path above)
import remembered  # noqa: E402
from report import read_cases  # noqa: E402

_FAILED, _SKIPPED = 1, 77


def _load(name, *path):
    """Imports a module from a file: tests/e2e is a folder that can be run, dts/local/run.py a program."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(ROOT, *path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Samples(unittest.TestCase):
    """Test cases for the e2e runner; unittest itself doesn't discover them."""

    def fails_and_skips(self):
        with self.subTest("first"):
            self.fail("wrong")
        self.skipTest("no reason")

    def skips(self):
        self.skipTest("no reason")

    def passes(self):
        pass


class Build:
    """A build folder with only logs in it."""

    def __init__(self, folder):
        self._folder = folder

    def log_path(self, *parts):
        path = os.path.join(self._folder, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path


def _test(protocol, *command):
    return {"name": "x", "cmd": list(command), "env": {}, "timeout": 30, "workdir": None, "protocol": protocol}


class Programs(unittest.TestCase):
    def outcomes(self, protocol, *command):
        with tempfile.TemporaryDirectory() as folder:
            return [case.outcome for case in programs.run_programs(Build(folder), [_test(protocol, *command)], 1)]

    def test_a_gtest_program_that_leaves_early_has_failed(self):
        self.assertEqual(self.outcomes("gtest", "true"), ["failed"])
        self.assertEqual(self.outcomes("gtest", "sh", "-c", 'printf "<half" > "${GTEST_OUTPUT#xml:}"'), ["failed"])

    def test_other_programs_are_their_exit_code(self):
        self.assertEqual(self.outcomes("exitcode", "true"), ["passed"])
        self.assertEqual(self.outcomes("exitcode", "false"), ["failed"])
        self.assertEqual(self.outcomes("exitcode", "sh", "-c", "exit 77"), ["skipped"])


class RememberedPrograms(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.program = os.path.join(self.folder.name, "program")
        self.write("exit 0")
        self.enterContext(mock.patch.dict(os.environ))
        os.environ.pop("CI", None)

    def write(self, text):
        with open(self.program, "w", encoding="utf-8") as out:
            out.write(text)

    def outcome(self, environment=None, always=False):
        build = Build(self.folder.name)
        return programs.run_programs(build, [_test("exitcode", "sh", self.program)], 1, environment=environment,
                                     remembered=remembered.Remembered(build, always))[0].outcome

    def test_what_passed_is_skipped_until_it_changes(self):
        self.assertEqual(self.outcome(), "passed")
        self.assertEqual(self.outcome(), "skipped")
        self.assertEqual(self.outcome({"UROCE_X": "1"}), "passed")
        self.write("exit 0 # changed")
        self.assertEqual(self.outcome(), "passed")

    def test_what_failed_or_skipped_runs_again(self):
        for code, outcome in ((1, "failed"), (77, "skipped")):
            self.write(f"echo run >>{self.folder.name}/runs; exit {code}")
            self.assertEqual([self.outcome(), self.outcome()], [outcome, outcome])
        with open(os.path.join(self.folder.name, "runs"), encoding="utf-8") as runs:
            self.assertEqual(len(runs.readlines()), 4)

    def test_everything_runs_in_ci_and_with_long(self):
        self.assertEqual(self.outcome(), "passed")
        self.assertEqual(self.outcome(always=True), "passed")
        os.environ["CI"] = "true"
        self.assertEqual(self.outcome(), "passed")


class Changes(unittest.TestCase):
    def test_a_header_is_seen_through_its_source_or_the_first_that_includes_it(self):
        changes = _load("changes", "tests", "tidy", "changes.py")
        texts = {"a/x.h": "", "a/x.cc": "", "a/y.h": "", "b/z.cc": '#include "a/y.h"\n', "c/z.cc": '#include "a/y.h"\n',
                 "a/unused.h": ""}
        self.assertEqual(changes.sources_of({"a/x.h", "a/y.h", "a/unused.h"}, texts), {"a/x.cc", "b/z.cc"})
        self.assertEqual(changes.sources_of({"c/z.cc"}, texts), {"c/z.cc"})


class EndToEnd(unittest.TestCase):
    def outcome(self, sample):
        with contextlib.redirect_stdout(io.StringIO()):
            return self.e2e._run_one(f"runner_test.Samples.{sample}")

    @classmethod
    def setUpClass(cls):
        cls.e2e = _load("e2e_runner", "tests", "e2e", "harness", "runner.py")

    def test_a_failure_counts_before_a_skip(self):
        self.assertEqual(self.outcome("fails_and_skips"), _FAILED)
        self.assertEqual(self.outcome("skips"), _SKIPPED)
        self.assertEqual(self.outcome("passes"), 0)


class Dts(unittest.TestCase):
    def test_reasons_of_any_characters_arrive(self):
        try:
            run = _load("dts_run", "dts", "local", "run.py")
        except ModuleNotFoundError as missing:
            self.skipTest(str(missing))
        results = [("a.b", "failed", 0.5, "two\nlines\tand a tab"), ("a.c", "passed", 0.25, "")]
        with tempfile.NamedTemporaryFile() as file:
            run.write_report(results, file.name)
            self.assertEqual([(case.name, case.outcome, case.seconds, case.reason) for case in read_cases(file.name)],
                             results)


if __name__ == "__main__":
    unittest.main()
