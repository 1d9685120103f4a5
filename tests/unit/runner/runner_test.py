#!/usr/bin/env python3
"""What the runners count: a case that went wrong is never one that passed or was skipped."""

import contextlib
import importlib.util
import io
import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "tests", "runner"), os.path.dirname(os.path.abspath(__file__))]

import programs  # noqa: E402  (needs the path above)
from report import read_cases  # noqa: E402

_FAILED, _SKIPPED = 1, 77


def _load(name, *path):
    """A module by its file: tests/e2e is a folder that runs, dts/local/run.py a program."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(ROOT, *path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Samples(unittest.TestCase):
    """What the e2e runner is given here; unittest itself finds none of them."""

    def fails_and_skips(self):
        with self.subTest("first"):
            self.fail("wrong")
        self.skipTest("no reason")

    def skips(self):
        self.skipTest("no reason")

    def passes(self):
        pass


class Programs(unittest.TestCase):
    def outcomes(self, protocol, *command):
        with tempfile.TemporaryDirectory() as folder:
            class Build:
                @staticmethod
                def log_path(name):
                    return os.path.join(folder, name)
            test = {"name": "x", "cmd": list(command), "env": {}, "timeout": 30, "workdir": None, "protocol": protocol}
            return [case.outcome for case in programs.run_programs(Build, [test], 1)]

    def test_a_gtest_program_that_leaves_early_has_failed(self):
        self.assertEqual(self.outcomes("gtest", "true"), ["failed"])
        self.assertEqual(self.outcomes("gtest", "sh", "-c", 'printf "<half" > "${GTEST_OUTPUT#xml:}"'), ["failed"])

    def test_other_programs_are_their_exit_code(self):
        self.assertEqual(self.outcomes("exitcode", "true"), ["passed"])
        self.assertEqual(self.outcomes("exitcode", "false"), ["failed"])
        self.assertEqual(self.outcomes("exitcode", "sh", "-c", "exit 77"), ["skipped"])


class EndToEnd(unittest.TestCase):
    def outcome(self, sample):
        with contextlib.redirect_stdout(io.StringIO()):
            return self.e2e._run_one(f"runner_test.Samples.{sample}")

    @classmethod
    def setUpClass(cls):
        cls.e2e = _load("e2e_runner", "tests", "e2e", "__main__.py")

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
