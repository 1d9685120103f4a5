"""Machines that give little: few threads or descriptors, no /proc, a /tmp that can't be written to, another's folder where ours
would be. It works, or one sentence says what to do."""

import os

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.process import ProcessFailed
from harness.programs import run_pair
from harness.victim import as_user
from harness.wires import Endpoint

_THREADS_MAX = 32  # more than a daemon with one worker has
_USER = 61_240     # the kernel counts processes by user, so each case has its own from here on


class Scarce(E2eCase):
    def setUp(self):
        super().setUp()
        self.need_root("limits and mounts of an ordinary user's are made for him")
        os.chmod(self.folder, 0o777)

    def _daemon(self, name, user, *limits):
        daemon = Daemon(self.tree, self.folder, self.logs, name, "loopback", "10.77.0.1/24",
                        prefix=[*as_user(user), "prlimit", *limits])
        self.addCleanup(daemon.end)
        return daemon

    def test_daemon_of_few_threads(self):
        """Whichever thread is the first that it doesn't get."""
        refused = 0
        for threads in range(1, _THREADS_MAX):
            try:
                self._daemon(f"threads-{threads}", _USER, f"--nproc={threads}").stop()
                break
            except ProcessFailed as failed:
                self.assertIn("there is no thread for", str(failed))
                self.assertNotIn("terminate called", str(failed))
                refused += 1
        self.assertGreaterEqual(refused, 5)
        self.assertLess(refused, _THREADS_MAX - 1)

    def test_daemon_of_few_descriptors(self):
        with self.assertRaisesRegex(ProcessFailed, r"64 files open, which leaves too few for programs: let it have 1024"):
            self._daemon("few", _USER + 1, "--nofile=64")
        daemon = self._daemon("enough", _USER + 1, "--nofile=128")
        end = Endpoint(daemon, "10.77.0.1", "127.0.0.1", prefix=list(as_user(_USER + 1)))

        class OneEnd:
            server = client = end
            expect_running = staticmethod(daemon.expect_running)
        run_pair(self, OneEnd, "ibv_rc_pingpong", "-g", 1, "-c", "-n", 50)
