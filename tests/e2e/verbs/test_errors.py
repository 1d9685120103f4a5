"""Errors explain themselves: `uroce errors`, and UROCE_DEBUG=1 in the program."""

import json
import os
import subprocess
import sys

from harness.case import E2eCase
from harness.places import RUN_SUITE

_SUITE = "/usr/share/doc/rdma-core/tests"
# A test of rdma-core's that makes a mistake on purpose, and what must be said of it.
_MISTAKE = "test_atomic.AtomicTest.test_atomic_invalid_rkey"
_EXPLANATION = "the peer's rkey names no region of this protection domain"


class Follow(E2eCase):
    def test_output_that_cannot_be_written(self):
        """It ends, instead of going on for nobody."""
        daemon = self.wire("loopback").server.daemon
        self.assertEqual(self.uroce("integrity", "--gid-index", 50, daemon=daemon).returncode, 1)
        with open("/dev/full", "wb") as full:
            answer = subprocess.run([self.tree.uroce, "errors", "--follow"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False,
                                    env={**os.environ, "UROCE_SOCKET": daemon.socket})
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertIn("can't be written", answer.stderr)


class Errors(E2eCase):
    def setUp(self):
        super().setUp()
        if not os.path.isdir(_SUITE):
            self.skipTest("Debian's python3-pyverbs isn't installed, or was installed without its documentation")
        self.daemon = self.wire("loopback").server.daemon

    def _make_a_mistake(self, **variables):
        answer = subprocess.run([sys.executable, RUN_SUITE, "--only", _MISTAKE], capture_output=True, text=True,
                                timeout=60, env={**os.environ, **self.daemon.environment(), **variables},
                                stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stderr

    def test_a_line_for_the_user(self):
        self._make_a_mistake()
        answer = self.uroce("errors", daemon=self.daemon)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        line = next(line for line in answer.stdout.splitlines() if _EXPLANATION in line)
        for word in ("python3[", "QP ", "PSN ", "key 0x", " bytes at 0x"):
            self.assertIn(word, line)

    def test_an_object_for_scripts(self):
        self._make_a_mistake()
        answer = self.uroce("errors", "--json", daemon=self.daemon)
        lines = [json.loads(line) for line in answer.stdout.splitlines()]
        self.assertTrue(any(_EXPLANATION in line["text"] for line in lines), answer.stdout)

    def test_said_by_the_program(self):
        said = self._make_a_mistake(UROCE_DEBUG="1")
        self.assertIn("the peer answered NAK: remote access error", said)

    def test_silent_otherwise(self):
        self.assertNotIn("uroce:", self._make_a_mistake())

    def test_a_refused_call(self):
        environment = {**os.environ, **self.daemon.environment()}
        subprocess.run(["ibv_rc_pingpong", "-g", "200", "-d", "uroce0"], env=environment, timeout=30, check=False,
                       capture_output=True, stdin=subprocess.DEVNULL)
        self.assertIn("query GID refused with EINVAL", self.uroce("errors", daemon=self.daemon).stdout)
