"""XRC: domains, shared receive queues of type XRC, sending and receiving queue pairs."""

from harness.case import E2eCase, on_each_wire
from harness.programs import run_pair

_BANDWIDTH = ("-F", "-x", 1, "-n", 50, "-c", "XRC")
_LATENCY = ("-F", "-x", 1, "-n", 20, "-c", "XRC")


@on_each_wire
class Pingpong(E2eCase):
    def check_poll(self, wire):
        run_pair(self, wire, "ibv_xsrq_pingpong", "-g", 1, "-n", 100)

    def check_events(self, wire):
        run_pair(self, wire, "ibv_xsrq_pingpong", "-g", 1, "-e", "-n", 100)


@on_each_wire
class Perftest(E2eCase):
    def check_bandwidth(self, wire):
        for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_atomic_bw"):
            run_pair(self, wire, tool, *_BANDWIDTH)

    def check_events(self, wire):
        run_pair(self, wire, "ib_send_bw", *_BANDWIDTH, "-e")

    def check_four_queue_pairs(self, wire):
        run_pair(self, wire, "ib_send_bw", *_BANDWIDTH, "-q", 4)

    def check_latency(self, wire):
        for tool in ("ib_send_lat", "ib_write_lat"):
            run_pair(self, wire, tool, *_LATENCY)


class SeveralWorkers(E2eCase):
    def test_queue_pairs_of_two_workers(self):
        """Every worker knows every shared receive queue of a domain."""
        wire = self.wire("loopback", "--workers", 2)
        run_pair(self, wire, "ib_send_bw", *_BANDWIDTH, "-q", 8)
        run_pair(self, wire, "ib_send_bw", *_BANDWIDTH, "-b", "-q", 4)
