"""Signals sent to `uroce run` are meant for its command, also while a private daemon makes it wait for the command."""

import os
import signal

from harness.case import E2eCase
from harness.process import Process, wait_until

_SECONDS_MAX = 30


class RunSignals(E2eCase):
    def _expect_arrival(self, number, environment):
        name = number.name.removeprefix("SIG")
        run = Process([self.tree.uroce, "run", "--no-tree", "--", "sh", "-c",
                       f"trap 'exit 7' {name}; echo ready; while :; do sleep 0.1; done"], f"run-{name}", self.logs, environment)
        self.addCleanup(run.end)
        wait_until(lambda: "ready" in run.out() or run.ended(), _SECONDS_MAX, "the command")
        run.signal(number)
        self.assertEqual(run.wait(_SECONDS_MAX), 7, name)

    def test_signals_reach_the_command(self):
        running = {"UROCE_SOCKET": self.wire("loopback").server.daemon.socket}
        private = {"UROCE_SOCKET": os.path.join(self.folder, "none.sock")}
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            for environment in (running, private):
                with self.subTest(number.name):
                    self._expect_arrival(number, environment)
