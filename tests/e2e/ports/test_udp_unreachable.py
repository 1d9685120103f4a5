"""ICMP errors about the path to a peer: reported to a connecting program, in the log, and in `uroce errors`."""

import time

from harness.case import E2eCase
from harness.process import Process, wait_until
from harness.programs import run_pair, start, start_pair
from harness.rdmacm import run_cm_pair
from harness.udp_wire import IPV4, Udp
from harness.wires import free_tcp_port


# Waits for a long packet to the server, and reports to its sender that it was too long.
_REPORT_PATH_MTU = """
import sys
from scapy.all import ICMP, IP, send, sniff
packet = sniff(iface="wire", count=1, lfilter=lambda packet: IP in packet and packet[IP].len > 1400,
               started_callback=lambda: print("waiting", flush=True))[0][IP]
quoted = bytes(packet)[:100]
send(IP(src=packet.dst, dst=packet.src) / ICMP(type=3, code=4, nexthopmtu=int(sys.argv[1])) / quoted, verbose=False)
"""


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
        _server, client = self._transfer_with_reported_mtu(wire, 60, 1400)
        for command in ("add table inet narrow", "add chain inet narrow input { type filter hook input priority 0; }",
                        "add rule inet narrow input udp dport 4791 meta length > 1400 drop"):
            wire.namespaces[0].run("nft", command)
        client.expect_failure(50)
        says = r"the path to 10\.77\.2\.1 carries IP packets of 1400 bytes at most"
        self.assertRegex(wire.client.daemon.process.out() + wire.client.daemon.process.err(), says)
        errors = self.uroce("errors", daemon=wire.client.daemon).stdout
        self.assertRegex(errors, r"retry counter exceeded: .*; and " + says)

    def test_udp_forged_path_mtu(self):
        """Anybody can claim that the path carries next to nothing: connections go on, and new ones are made."""
        wire = Udp(self)
        for program in self._transfer_with_reported_mtu(wire, 5, 100):
            program.expect_success(60)
        run_pair(self, wire, "ib_write_bw", "-F", "-x", IPV4, "-m", 1024, "-s", 65536, "-n", 100)
        wire.stop()

    def _transfer_with_reported_mtu(self, wire, seconds, mtu):
        """Returns (server, client) of a transfer, once an ICMP error about one of its packets has gone to the client's machine."""
        namespace = wire.namespaces[0]
        report = Process([*namespace.prefix(), "/usr/bin/python3", "-c", _REPORT_PATH_MTU, mtu], "report", self.logs)
        self.addCleanup(report.end)
        wait_until(lambda: report.ended() or "waiting" in report.out(), 60, "a packet awaited")
        programs = start_pair(self, wire, "ib_write_bw", ["-F", "-x", IPV4, "-s", 65536, "-D", seconds])
        report.expect_success(60)
        return programs

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
