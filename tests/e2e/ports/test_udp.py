"""--port udp: an ordinary user without capabilities at both ends, over plain UDP sockets of the kernel."""

import os
import re

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.process import ProcessFailed
from harness.programs import Shape, run_pair
from harness.rdmacm import run_cm_pair
from harness.udp_wire import IPV4, IPV6, AfPacketAndUdp, Udp, UdpAndAfPacket

_OPERATIONS = 100_000 if os.environ.get("UROCE_E2E_LONG") else 10_000
_SHAPE = Shape(port=("--port",), serve=("--server",), connect=("--connect",))


class UdpCase(E2eCase):
    seconds_max = 900 if os.environ.get("UROCE_E2E_LONG") else 300

    def run_integrity(self, wire, operations=_OPERATIONS, index=IPV4):
        """As large as an ordinary user's limit of locked memory (8 MiB) allows."""
        out = run_pair(self, wire, self.tree.integrity, "--ops", operations, "--qps", 2, "--size-max", 131_072,
                       "--gid-index", index, shape=_SHAPE, seconds_max=self.seconds_max - 30)
        done, errors = map(int, re.search(r"(\d+) operations, (\d+) errors", out).groups())
        self.assertEqual(errors, 0, out)
        self.assertGreaterEqual(done, operations)

    def device(self, endpoint):
        return self.status(endpoint.daemon)["devices"][0]


class OrdinaryUsers(UdpCase):
    def test_udp_has_no_rights(self):
        wire = Udp(self)
        for daemon in wire.daemons:
            with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as lines:
                status = lines.read()
            self.assertRegex(status, r"Uid:\s+65534")
            for kind in ("Prm", "Eff", "Bnd", "Amb"):
                self.assertRegex(status, rf"Cap{kind}:\s+0+\n")
        wire.stop()

    def test_udp_pingpong(self):
        wire = Udp(self)
        for index in (IPV4, IPV6):
            for program, check in (("ibv_rc_pingpong", ["-c"]), ("ibv_uc_pingpong", []), ("ibv_ud_pingpong", [])):
                run_pair(self, wire, program, "-g", index, *check, "-n", 200)
            run_pair(self, wire, "ibv_rc_pingpong", "-g", index, "-c", "-e", "-s", 65537, "-n", 50)
        wire.stop()

    def test_udp_perftest(self):
        """With GRO, received datagrams have IP identifications above 0, which are recovered for the ICRC over IPv4 only."""
        wire = Udp(self)
        for index in (IPV6, IPV4):
            for tool in ("ib_write_bw", "ib_read_bw", "ib_send_lat"):
                run_pair(self, wire, tool, "-x", index, "-F", "-s", 65536, "-n", 200)
            solved = sum(self.device(end)["ip_id_solved"] for end in (wire.server, wire.client))
            self.assertEqual(solved > 0, index == IPV4, solved)
        self.assertEqual(self.device(wire.server)["tx_failed"], 0)
        wire.stop()

    def test_udp_rdmacm(self):
        wire = Udp(self)
        self._connect(wire)
        wire.know_by_ipv6()
        self._connect(wire)
        wire.stop()

    def _connect(self, wire):
        common = ["-a", "SERVER", "-p", "PORT", "-C", 10, "-V"]
        run_cm_pair(self, wire, ["rping", "-s", *common], ["rping", "-c", *common])
        run_cm_pair(self, wire, ["ucmatose", "-b", "SERVER", "-p", "PORT", "-c", 50],
                    ["ucmatose", "-s", "SERVER", "-p", "PORT", "-c", 50])

    def test_udp_integrity(self):
        wire = Udp(self)
        self.run_integrity(wire)
        wire.stop()

    def test_udp_integrity_ipv6(self):
        wire = Udp(self)
        self.run_integrity(wire, index=IPV6)
        self.assertEqual(self.device(wire.server)["ip_id_solved"], 0)
        wire.stop()

    def test_udp_integrity_two_workers(self):
        self.run_integrity(Udp(self, ["--workers", 2]))

    def test_udp_integrity_faults(self):
        self.run_integrity(Udp(self, ["--faults", "loss=0.02,dup=0.01,reorder=0.02,seed=7"]), 4_000)


class MarkedAtEachEnd(Udp):
    """The card of each end marks one packet that it sends as congested: a request of the first queue pair at the client's, a
    response to the second one at the server's."""

    def _start(self, name, port, ip, prefix=(), arguments=()):
        event = "qp:1/response/psn:3:ce" if name == "uroced-a" else "qp:0/psn:3:ce"
        return super()._start(name, port, ip, prefix, [*arguments, "--faults", f"at={event}"])


class Marks(UdpCase):
    def test_udp_marks(self):
        self._run_marked(IPV4)

    def test_udp_marks_ipv6(self):
        self._run_marked(IPV6)

    def _run_marked(self, index):
        """An ECN mark passes the sockets of both ends, and so does the CNP that answers it, in both directions."""
        wire = MarkedAtEachEnd(self)
        for tool, sees, told in (("ib_write_bw", wire.server, wire.client), ("ib_read_bw", wire.client, wire.server)):
            run_pair(self, wire, tool, "-x", index, "-F", "-s", 4096, "-n", 20)
            seen, heeded = (self.device(end)["hw_counters"] for end in (sees, told))
            self.assertEqual((seen["np_ecn_marked_roce_packets"], seen["np_cnp_sent"]), (1, 1), tool)
            self.assertEqual(heeded["rp_cnp_handled"] + heeded["rp_cnp_ignored"], 1, tool)
        wire.stop()


class WithAnAfPacketDaemon(UdpCase):
    def test_udp_af_packet_programs(self):
        wire = UdpAndAfPacket(self)
        self._run_programs(wire)
        self.assertGreater(self.device(wire.server)["ip_id_solved"], 0)
        self.assertEqual(self.device(wire.client)["ip_id_solved"], 0)
        wire.stop()

    def test_udp_af_packet_serves(self):
        wire = AfPacketAndUdp(self)
        self._run_programs(wire)
        self.assertEqual(self.device(wire.server)["ip_id_solved"], 0)
        self.assertGreater(self.device(wire.client)["ip_id_solved"], 0)
        wire.stop()

    def _run_programs(self, wire):
        for index in (IPV4, IPV6):
            for program, check in (("ibv_rc_pingpong", ["-c"]), ("ibv_uc_pingpong", []), ("ibv_ud_pingpong", [])):
                run_pair(self, wire, program, "-g", index, *check, "-n", 200)
            for tool in ("ib_write_bw", "ib_read_bw", "ib_send_lat"):
                run_pair(self, wire, tool, "-x", index, "-F", "-s", 65536, "-n", 200)
            common = ["-a", "SERVER", "-p", "PORT", "-C", 10, "-V"]
            run_cm_pair(self, wire, ["rping", "-s", *common], ["rping", "-c", *common])
            wire.know_by_ipv6()

    def test_udp_af_packet_integrity(self):
        self.run_integrity(UdpAndAfPacket(self))

    def test_udp_af_packet_integrity_ipv6(self):
        self.run_integrity(UdpAndAfPacket(self), index=IPV6)


class Refusals(E2eCase):
    def _refused(self, *arguments):
        with self.assertRaises(ProcessFailed) as failure:
            daemon = Daemon(self.tree, self.folder, self.logs, f"refused-{self.next_number()}", "udp", *arguments)
            self.addCleanup(daemon.end)
        return str(failure.exception)

    def test_udp_addresses(self):
        mine = f"127.{64 + os.getpid() // 256 % 128}.{os.getpid() % 256}.9"
        self.assertRegex(self._refused("192.0.2.77/24"), "192.0.2.77 isn't an address of this machine")
        self.assertRegex(self._refused(mine, ["--route", f"10.0.0.0/8={mine}"]), "leave out @VLAN, --route")
        first = Daemon(self.tree, self.folder, self.logs, "first", "udp", mine)
        self.addCleanup(first.end)
        taken = rf"UDP port 4791 of {re.escape(mine)} is taken by uroced \(process {first.process.pid}\): .*stop it"
        self.assertRegex(self._refused(mine), taken)
        answer = self.uroce("addr", "add", "192.0.2.77", daemon=first)
        self.assertIn("192.0.2.77 isn't an address of this machine", answer.stderr)
