"""FLUSH to persistence: when it completes, earlier writes are on the disk (apps/examples/durable_write)."""

import os
import subprocess
import tempfile

from harness.case import E2eCase
from harness.places import ROOT

_ON_DISKS = ("ext2/ext3", "xfs", "btrfs", "f2fs", "overlayfs")  # as stat names file systems
_CANNOT_TELL = 77
_SECONDS_MAX = 60  # seconds; it takes one, more on a busy disk


def _file_system(folder):
    return subprocess.run(["stat", "--file-system", "--format", "%T", folder], capture_output=True, text=True,
                          check=True).stdout.strip()


class DurableWrites(E2eCase):
    def test_pinned(self):
        self._run()

    def test_on_demand(self):
        self._run("--odp")

    def _run(self, *arguments):
        """In the first folder on a file system for which one can tell what is on the disk."""
        daemon = self.wire("loopback").server.daemon
        reasons = []
        for parent in (tempfile.gettempdir(), "/var/tmp", ROOT):
            kind = _file_system(parent)
            if kind not in _ON_DISKS:
                reasons.append(f"{parent} is on {kind}")
                continue
            with tempfile.TemporaryDirectory(prefix="uroce-flush-", dir=parent) as folder:
                program = subprocess.run([f"{self.tree.examples}/durable_write", *arguments, f"{folder}/file"],
                                         env={**os.environ, **daemon.environment()}, capture_output=True, text=True,
                                         timeout=_SECONDS_MAX, check=False)
            if program.returncode == _CANNOT_TELL:
                reasons.append(f"{parent}: {program.stdout.strip()}")
                continue
            self.assertEqual(program.returncode, 0, program.stdout + program.stderr)
            self.assertRegex(program.stdout, r"flushed and on the disk; [1-9]\d* pages were dirty before")
            daemon.expect_running()
            return
        self.skipTest("; ".join(reasons))
