"""How other libraries list the device: libfabric."""

import os
import shutil
import subprocess

from harness.case import E2eCase


class Discovery(E2eCase):
    def _list(self, *command):
        if shutil.which(command[0]) is None:
            self.skipTest(f"{command[0]} isn't installed")
        environment = {**os.environ, **self.wire("loopback").server.environment()}
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60,
                                check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return answer.stdout

    def test_libfabric(self):
        endpoints = self._list("fi_info", "-p", "verbs")
        self.assertIn("domain: uroce0", endpoints)
        self.assertIn("type: FI_EP_MSG", endpoints)
