"""Registered memory keeps the semantics of private memory, for malloc and for the program itself."""

import os
import subprocess
import sys

from harness.case import E2eCase
from harness.places import PYVERBS


class Pinned(E2eCase):
    def setUp(self):
        super().setUp()
        self._daemon = self.wire("loopback").server.daemon

    def _run(self, case, program="pinned_memory.py", **environment):
        daemon = self._daemon
        program = subprocess.run([sys.executable, os.path.join(PYVERBS, program), case], capture_output=True, text=True, timeout=90, check=False,
                                 env={**os.environ, **daemon.environment(), **environment}, stdin=subprocess.DEVNULL)
        self.assertEqual(program.returncode, 0, program.stderr)
        daemon.expect_running()
        return program.stderr

    def test_dropped_memory_reads_as_zeroes(self):
        self._run("dropped")

    def test_dropped_memory_reads_as_zeroes_the_slow_way(self):
        self._run("dropped", UROCE_MEMORY="copy")

    def test_without_hooks(self):
        """UROCE_HOOKS=none: libc's functions aren't hooked, and pinned memory works all the same."""
        for case in ("dropped", "moved", "allocated"):
            with self.subTest(case=case):
                self._run(case, UROCE_HOOKS="none")
        said = self._run("without_hooks", UROCE_HOOKS="none", UROCE_DEBUG="1")
        self.assertIn("UROCE_HOOKS=none leaves libc's functions alone", said)

    def test_many_pieces(self):
        """More pieces than fit into one record: a file describes them."""
        self._run("in_pieces")

    def test_mremap_and_realloc_of_parts(self):
        self._run("moved")

    def test_malloc_finds_its_heaps_clean(self):
        self._run("allocated")

    def test_unmapped_memory_goes_back(self):
        self._run("given_back")

    def test_library_in_a_namespace_of_its_own(self):
        self._run("", program="other_namespace.py")

    def test_static_memory_where_every_program_has_a_capability(self):
        """As logins at a machine's own console give it (systemd 254), which reaches nothing of anybody's."""
        self.need_root("it runs as another user, with a capability")
        self.need("rdma_server", "setpriv")
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all,+wake_alarm", "--ambient-caps=-all,+wake_alarm"]
        pair = "rdma_server & for try in $(seq 100); do rdma_client -s 10.0.0.1 && break; done; wait $!"
        if subprocess.run([*user, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this container lacks CAP_WAKE_ALARM")
        answer = subprocess.run([*user, self.tree.uroce, "run", "--", "sh", "-c", pair], capture_output=True, text=True, timeout=60, check=False, cwd="/",
                                env={"PATH": os.environ["PATH"]}, stdin=subprocess.DEVNULL)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
