"""A daemon that is stopped for a while (SIGSTOP, a debugger, a frozen cgroup) and goes on."""

import signal
import time

from harness.case import E2eCase
from harness.process import wait_until
from harness.programs import run_pair, start_pair
from harness.udp_wire import IPV4, Udp

_SECONDS = 3


class Stopped(E2eCase):
    def check_stopped(self, wire):
        """Connections whose retries last longer survive on both sides; new ones work afterwards."""
        server, client = start_pair(self, wire, "ib_send_bw", ["-x", IPV4, "-F", "-D", 6, "-u", 19, "-s", 4096])
        wait_until(lambda: self.bytes_sent(wire.client.daemon) > 4 << 20 or server.ended(), 30, "traffic")
        wire.server.daemon.process.signal(signal.SIGSTOP)
        time.sleep(_SECONDS)
        wire.server.daemon.process.signal(signal.SIGCONT)
        client.expect_success(60)
        server.expect_success(60)
        run_pair(self, wire, "ibv_rc_pingpong", "-g", IPV4, "-c", "-n", 100)
        wire.stop()

    def test_stopped_af_packet(self):
        self.check_stopped(self.wire("veth"))

    def test_stopped_shared_memory(self):
        self.check_stopped(self.wire("shared_memory"))

    def test_stopped_udp(self):
        self.check_stopped(Udp(self))
