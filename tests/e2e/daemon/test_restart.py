"""Commands that show what the daemon says again and again, while it is restarted."""

import json
import os
import signal
import subprocess

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.process import Process, wait_until

_SECONDS_MAX = 30


class Restart(E2eCase):
    def setUp(self):
        super().setUp()
        self.daemon = self._start()

    def _start(self):
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "loopback", "10.77.0.1/24")
        self.addCleanup(daemon.end)
        return daemon

    def _show(self, *words):
        shown = Process([self.tree.uroce, *words], words[0], self.logs, {"UROCE_SOCKET": self.daemon.socket})
        self.addCleanup(shown.end)
        return shown

    def _restart(self, shown):
        """`shown` says once that the daemon is gone, however often it asks, and then that it is back."""
        self.daemon.stop()
        wait_until(lambda: "has ended" in shown.err() or shown.ended(), _SECONDS_MAX, "the end")
        self.daemon = self._start()
        wait_until(lambda: "answers again" in shown.err() or shown.ended(), _SECONDS_MAX, "the return")
        self.assertEqual(len(shown.err().splitlines()), 2, shown.err())
        self.assertIn(self.daemon.socket, shown.err())

    def _make_a_mistake(self):
        subprocess.run(["ibv_rc_pingpong", "-g", "200", "-d", "uroce0"], env={**os.environ, **self.daemon.environment()}, timeout=30,
                       check=False, capture_output=True, stdin=subprocess.DEVNULL)

    def _expect_ctrl_c_to_end(self, shown):
        shown.signal(signal.SIGINT)
        self.assertEqual(shown.wait(_SECONDS_MAX), -signal.SIGINT)

    def test_errors(self):
        """The next daemon's lines are shown from its first one on, although they count from 1 again."""
        self._make_a_mistake()
        shown = self._show("errors", "--follow")
        wait_until(lambda: shown.out().count("query GID refused") == 1, _SECONDS_MAX, "the first line")
        self._restart(shown)
        self._make_a_mistake()
        wait_until(lambda: shown.out().count("query GID refused") == 2, _SECONDS_MAX, "the line of the next daemon")
        self._expect_ctrl_c_to_end(shown)

    def test_top(self):
        """Rates are between two reports of one daemon."""
        shown = self._show("top", "--json", "--interval", "0.1")
        wait_until(shown.out, _SECONDS_MAX, "the first daemon")
        old = self.status(self.daemon)["pid"]
        self._restart(shown)

        def reports():
            return [json.loads(line) for line in shown.out().splitlines(keepends=True) if line.endswith("\n")]
        wait_until(lambda: reports()[-1]["now"]["pid"] != old, _SECONDS_MAX, "the next daemon")
        for report in reports():
            self.assertEqual(report["before"]["pid"], report["now"]["pid"])
        self._expect_ctrl_c_to_end(shown)

    def test_ctrl_c_while_there_is_none(self):
        for words in (("errors", "--follow"), ("top", "--batch", "--interval", "0.1")):
            with self.subTest(words[0]):
                self._make_a_mistake()
                shown = self._show(*words)
                wait_until(shown.out, _SECONDS_MAX, "the daemon")
                self.daemon.stop()
                wait_until(lambda shown=shown: "has ended" in shown.err() or shown.ended(), _SECONDS_MAX, "the end")
                self._expect_ctrl_c_to_end(shown)
                self.daemon = self._start()

    def test_a_counted_top_ends(self):
        shown = self._show("top", "--batch", "--interval", "0.1", "--count", "100")
        wait_until(shown.out, _SECONDS_MAX, "the daemon")
        self.daemon.stop()
        self.assertEqual(shown.wait(_SECONDS_MAX), 1)
        self.assertIn("has ended", shown.err())
