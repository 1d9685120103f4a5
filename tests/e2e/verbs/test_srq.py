"""Shared receive queues: several queue pairs receive from one."""

import os
import subprocess
import sys

from harness.case import E2eCase, on_each_wire
from harness.places import PYVERBS
from harness.programs import run_pair


@on_each_wire
class SharedReceiveQueues(E2eCase):
    def check_poll(self, wire):
        run_pair(self, wire, "ibv_srq_pingpong", "-g", 1, "-c", "-n", 200)

    def check_events(self, wire):
        run_pair(self, wire, "ibv_srq_pingpong", "-g", 1, "-c", "-e", "-n", 200)

    def check_bandwidth(self, wire):
        run_pair(self, wire, "ib_send_bw", "-F", "-x", 1, "-n", 50, "--use-srq", "-q", 4)


class Resizing(E2eCase):
    """While receives wait in the queue."""

    def _resize(self, workers):
        program = os.path.join(PYVERBS, "srq_resize.py")
        daemon = self.wire("loopback", "--workers", workers).server.daemon
        answer = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=90, check=False,
                                env={**os.environ, **daemon.environment()}, stdin=subprocess.DEVNULL)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        daemon.stop()

    def test_one_worker(self):
        self._resize(1)

    def test_queues_that_workers_lock(self):
        self._resize(2)


class SeveralWorkers(E2eCase):
    def test_queue_pairs_of_two_workers(self):
        """The queue pairs that share a queue belong to different workers."""
        wire = self.wire("loopback", "--workers", 2)
        run_pair(self, wire, "ibv_srq_pingpong", "-g", 1, "-c", "-q", 16, "-n", 2000)
        run_pair(self, wire, "ib_send_bw", "-F", "-x", 1, "-n", 200, "--use-srq", "-q", 8)
