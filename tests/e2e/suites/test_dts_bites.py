"""Mutation tests of the suites in dts/: an answer that is wrong in one respect makes the suite for it fail."""

import json
import os
import subprocess

from harness.case import E2eCase
from harness.places import ROOT

_RUN = os.path.join(ROOT, "dts", "local", "run.py")


class DtsBites(E2eCase):
    def _failed(self, suite, *arguments):
        """The cases of the suite that failed; the others passed."""
        report = os.path.join(self.folder, "cases")
        answer = subprocess.run(["/usr/bin/python3", _RUN, "--build", self.tree.root, "--report", report, *arguments,
                                 suite + "."], capture_output=True, text=True, timeout=120, check=False)
        with open(report, encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        self.assertTrue(rows, answer.stdout + answer.stderr)
        if all(row["outcome"] == "skipped" for row in rows):
            self.skipTest(rows[0]["reason"])
        return {row["name"].partition(".")[2] for row in rows if row["outcome"] == "failed"}

    def test_wrong_msn(self):
        self.assertIn("only", self._failed("roce_rc_write", "--mangle", "msn"))

    def test_wrong_icrc(self):
        self.assertEqual(self._failed("roce_rc_send", "--mangle", "icrc") & {"only", "with_immediate"},
                         {"only", "with_immediate"})

    def test_missing_pad(self):
        self.assertEqual(self._failed("roce_rc_read", "--mangle", "pad"), {"odd_lengths"})

    def test_no_nak(self):
        failed = self._failed("roce_rc_errors", "--mangle", "nak")
        self.assertIn("unknown_key", failed)
        self.assertIn("sequence_error", failed)
        self.assertNotIn("duplicate_write", failed)

    def test_wrong_hole(self):
        """NAKs name another packet than the one that is missing: of the cases with losses, those in
        which NAKs occur notice it."""
        self.assertEqual(self._failed("roce_lumina", "--mangle", "hole", "lost"),
                         {"lost_request", "request_lost_twice", "two_requests_lost", "words_lost"})

    def test_read_of_what_came(self):
        self.assertEqual(self._failed("roce_lumina", "--mangle", "reread", "read"),
                         {"end_of_a_read_lost", "lost_read_response", "spoilt_and_repeated_read_responses"})

    def test_no_notifications(self):
        self.assertEqual(self._failed("roce_lumina", "--mangle", "cnp", "marked"), {"marked_requests", "marked_read_responses"})

    def test_no_reports(self):
        self.assertEqual(self._failed("roce_lumina", "--mangle", "sack", "reported"), {"holes_of_a_window_are_reported"})

    def test_nothing_wrong(self):
        self.assertEqual(self._failed("roce_rc_errors"), set())
