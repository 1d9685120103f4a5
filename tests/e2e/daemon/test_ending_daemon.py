"""What a program says whose daemon ends while it looks for devices, as at a restart."""

import os
import socket
import subprocess
import threading

from harness.case import E2eCase

_SECONDS_MAX = 30


class EndingDaemon(E2eCase):
    def test_no_devices_yet(self):
        path = os.path.join(self.folder, "ending.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path)
            listener.listen()
            ending = threading.Thread(target=lambda: listener.accept()[0].close(), daemon=True)
            ending.start()
            answer = subprocess.run(["ibv_devices"], env={**os.environ, **self.tree.program_environment(), "UROCE_SOCKET": path},
                                    capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
            ending.join(_SECONDS_MAX)
        self.assertNotIn("uroce0", answer.stdout)
        self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
        self.assertIn(f"the daemon at {path} ended before it answered: if it is being restarted, try again", answer.stderr)
