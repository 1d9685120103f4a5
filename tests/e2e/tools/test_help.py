"""The --help of subcommands that are programs of the card."""

import os

from harness.case import E2eCase


class Help(E2eCase):
    def test_help_needs_no_daemon(self):
        """Nor does it start a private one."""
        for line, option in (("integrity --help", "--server"), ("integrity --server -h", "--qps"), ("doctor somewhere --help", "--gid-index"),
                             ("doctor --serve -h", "--port"), ("doctor -h", "--device")):
            with self.subTest(line):
                answer = self.uroce(*line.split(), env={"PATH": os.environ["PATH"], "UROCE_SOCKET": f"{self.folder}/none.sock"})
                self.assertEqual((answer.returncode, answer.stderr), (0, ""))
                self.assertIn(f"\n  {option} ", answer.stdout)
                self.assertIn("\nOptions:\n", answer.stdout)
