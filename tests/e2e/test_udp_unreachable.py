"""ICMP errors about the path to a peer: reported to a connecting program, in the log, and in `uroce errors`."""

import time

from harness.case import E2eCase
from harness.process import wait_until
from harness.programs import run_pair, start, start_pair
from harness.rdmacm import run_cm_pair
from harness.udp_wire import IPV4, Udp
from harness.wires import free_tcp_port


class Unreachable(E2eCase):
    def _connect(self, wire, address):
        """Returns the output of ucmatose, and how many seconds it took."""
        began = time.monotonic()
        program = start(self, wire.client, ["ucmatose", "-s", address, "-p", free_tcp_port(), "-C", 1],
                        f"{self.next_number()}-ucmatose")
        program.wait(60)
        return program.out() + program.err(), time.monotonic() - began

    def _check(self, wire, address, number, words):
        said, seconds = self._connect(wire, address)
        self.assertIn(f"event: RDMA_CM_EVENT_UNREACHABLE, error: -{number}", said)
        self.assertLess(seconds, 20)
        log = wire.client.daemon.process.out() + wire.client.daemon.process.err()
        self.assertIn(words, log)

    def test_udp_nobody_listens(self):
        wire = Udp(self)
        wire.server.daemon.stop()
        for address in ("10.77.2.1", "fd00:77::1"):
            self._check(wire, address, 111, f"{address} is there, but nothing has UDP port 4791 at that address")

    def test_udp_no_such_host(self):
        wire = Udp(self)
        for address in ("10.77.2.99", "fd00:77::99"):
            self._check(wire, address, 113, f"no host answers at {address}")
        wire.stop()

    def test_af_packet_nobody_listens(self):
        """The same by ICMP from the wire."""
        wire = type("Wire", (Udp,), {"ordinary": ("a",)})(self)
        wire.server.daemon.stop()
        self._check(wire, "10.77.2.1", 111, "10.77.2.1 is there, but nothing has UDP port 4791")

    def test_udp_path_that_shrinks(self):
        """A router's MTU shrinks while a connection is in use: the error of the failed work request says so."""
        wire = Udp(self)
        _server, client = start_pair(self, wire, "ib_write_bw", ["-F", "-x", IPV4, "-s", 65536, "-D", 20])
        wait_until(lambda: client.ended() or self._sent(wire.client) > 1_000, 30, "traffic")
        wire.namespaces[1].run("ip", "route", "replace", "10.77.2.0/24", "dev", "wire", "mtu", "1400")
        self.assertNotEqual(client.wait(60), 0)
        says = r"the path to 10\.77\.2\.1 carries IP packets of 1400 bytes at most"
        self.assertRegex(wire.client.daemon.process.out() + wire.client.daemon.process.err(), says)
        errors = self.uroce("errors", daemon=wire.client.daemon).stdout
        self.assertRegex(errors, r"retry counter exceeded: .*; and " + says)

    def _sent(self, endpoint):
        return self.status(endpoint.daemon)["devices"][0]["tx_frames"]

    def test_udp_narrow_path(self):
        """The kernel's path MTU limits ours: the connection manager chooses a smaller one, a program's larger one is refused."""
        wire = Udp(self)
        for namespace in wire.namespaces:
            namespace.run("ip", "route", "replace", "10.77.2.0/24", "dev", "wire", "mtu", "1400")
        common = ["-a", "SERVER", "-p", "PORT", "-C", 10, "-V", "-S", 20_000]
        run_cm_pair(self, wire, ["rping", "-s", *common], ["rping", "-c", *common])
        run_pair(self, wire, "ib_write_bw", "-F", "-x", IPV4, "-m", 1024, "-s", 65536, "-n", 100)
        self.assertEqual([self.status(end.daemon)["devices"][0]["tx_failed"] for end in (wire.server, wire.client)], [0, 0])
        server, _client = start_pair(self, wire, "ib_write_bw", ["-F", "-x", IPV4, "-m", 4096, "-s", 65536, "-n", 100])
        server.expect_failure(60)
        self.assertIn("path_mtu 4096 is more than the 1024 that the path to 10.77.2.2 carries",
                      self.uroce("errors", daemon=wire.server.daemon).stdout)
        wire.stop()

    def test_udp_no_route(self):
        wire = Udp(self)
        program = start(self, wire.client, ["ucmatose", "-s", "203.0.113.1", "-p", free_tcp_port(), "-C", 1], "ucmatose")
        program.expect_failure(20)
        self.assertIn("Network is unreachable", program.out() + program.err())
        wire.stop()
