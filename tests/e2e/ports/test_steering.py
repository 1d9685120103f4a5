"""Two workers behind one port: which frames the kernel gives each of them, and which they hand over to each other."""

import re

from harness.case import E2eCase
from harness.programs import run_pair
from harness.udp_wire import IPV4, IPV6, Udp
from harness.wires import Veth
from verbs.test_integrity import SHAPE

_OPERATIONS = 20_000
_FEW = 0.01  # of what was received
_TWO_WORKERS = ["--workers", 2]


class OneQueue(Veth):
    """With a single queue: worker 0 receives for both."""
    port = f"{Veth.port},qpairs=1"


class Steering(E2eCase):
    def _run(self, wire, index):
        out = run_pair(self, wire, self.tree.integrity, "--ops", _OPERATIONS, "--qps", 4, "--size-max", 65_536,
                       "--gid-index", index, shape=SHAPE)
        self.assertRegex(out, r"\d+ operations, 0 errors")

    def _workers(self, endpoint):
        """For each worker: how much it has received, and the fraction that it has handed over."""
        workers = self.status(endpoint.daemon)["workers"]
        print(re.sub(r"\s+", " ", str(workers)), flush=True)
        self.assertEqual(len(workers), 2)
        return [(worker["rx_frames"], worker["handed_over"]) for worker in workers]

    def _check_owners_receive(self, wire, *indexes):
        for index in indexes:
            self._run(wire, index)
        for end in (wire.server, wire.client):
            for received, handed_over in self._workers(end):
                self.assertGreater(received, _OPERATIONS / 20)
                self.assertLess(handed_over, received * _FEW)
        wire.stop()

    def test_steering_af_packet(self):
        self._check_owners_receive(Veth(self, _TWO_WORKERS), IPV4)

    def test_steering_udp(self):
        self._check_owners_receive(Udp(self, _TWO_WORKERS), IPV4, IPV6)

    def test_steering_one_queue(self):
        """Without steering, frames are handed over, and none is lost."""
        wire = OneQueue(self, _TWO_WORKERS)
        self._run(wire, IPV4)
        for end in (wire.server, wire.client):
            (received, handed_over), (other_received, other_handed_over) = self._workers(end)
            self.assertGreater(handed_over, received / 20)
            self.assertEqual((other_received, other_handed_over), (0, 0))
        wire.stop()
