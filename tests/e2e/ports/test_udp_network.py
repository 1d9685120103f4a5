"""Which addresses a udp port takes; `uroce run --net`; the UDP port is already in use."""

from harness.network_case import NetworkCase
from harness.process import Process, ProcessFailed, wait_until
from harness.programs import listens
from harness.rdmacm import connections
from harness.udp_wire import IPV4, NOBODY
from harness.wires import free_tcp_port



class OfAnInterface(NetworkCase):
    def _addresses(self, daemon):
        answer = self.uroce("addr", daemon=daemon)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def test_udp_interface_addresses(self):
        daemon = self.daemon("uroced", self.ends[0], "udp,iface=wire")
        addresses = self._addresses(daemon)
        self.assertLess(addresses.index("10.77.3.1/24"), addresses.index("fd00:78::1/64"))
        daemon.stop()

    def test_udp_interface_changes(self):
        """The device follows the interface's addresses as they are added and removed; the new one carries traffic."""
        wire = self.ends[0]
        daemon = self.daemon("uroced", wire, "udp,iface=wire")
        wire.run("ip", "address", "add", "10.77.3.9/24", "dev", "wire")
        wait_until(lambda: "10.77.3.9/24" in self._addresses(daemon), 60, "the new address")
        self._ping("10.77.3.9", daemon)
        wire.run("ip", "address", "del", "10.77.3.9/24", "dev", "wire")
        wire.run("ip", "address", "del", "fd00:78::1/64", "dev", "wire")
        wait_until(lambda: not {"10.77.3.9", "fd00:78::1"} & set(self._addresses(daemon).replace("/", " ").split()), 60,
                   "the addresses gone")
        self._ping("10.77.3.1", daemon)
        daemon.stop()

    def test_udp_first_address_goes(self):
        """The port is up as long as any one of its addresses can be used."""
        wire = self.ends[0]
        wire.run("ip", "address", "add", "10.77.3.9/24", "dev", "wire")
        daemon = self.daemon("uroced", wire, "udp", "10.77.3.9/24", "10.77.3.1/24")
        # Removing it makes the daemon check the link, once the daemon has removed the address, too.
        answer = self.uroce("addr", "del", "10.77.3.9", daemon=daemon)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        wire.run("ip", "address", "del", "10.77.3.9/24", "dev", "wire")
        wire.run("ip", "link", "add", "another", "type", "veth", "peer", "name", "other")
        self._ping("10.77.3.1", daemon)
        self.assertIn("link up", self.uroce("status", daemon=daemon).stdout)
        daemon.stop()

    def _ping(self, address, daemon):
        """rping from the other end."""
        port = free_tcp_port()
        server = Process([*self.ends[0].prefix(), *NOBODY, "rping", "-s", "-a", address, "-p", port, "-C", 5],
                         f"{self.next_number()}-server", self.logs, daemon.environment())
        self.addCleanup(server.end)
        wait_until(lambda: server.ended() or any(listener["port"] == port for listener in
                                                 connections(self, daemon)["listeners"]), 30, "rping listens")
        client = self.run_command(f"{self.next_number()}-client", self.ends[1], "--net", "--", "rping", "-c", "-a", address,
                                  "-p", port, "-C", 5)
        client.expect_success(60)
        server.expect_success(60)

    def test_udp_interface_refusals(self):
        for port, words in ((["udp,iface=nothere"], "there is no network interface nothere here"),
                            (["udp,iface=wire", "10.77.3.1"], "give it addresses of this machine"),
                            (["udp"], "give it addresses of this machine")):
            with self.assertRaises(ProcessFailed) as failure:
                self.daemon(f"refused-{self.next_number()}", self.ends[0], *port)
            self.assertIn(words, str(failure.exception))


class RunWithANetwork(NetworkCase):
    def test_run_net(self):
        """Private daemons of both ends reach each other."""
        port = free_tcp_port()
        command = ["--net", "--", "ibv_rc_pingpong", "-g", IPV4, "-p", port, "-n", 100]
        server = self.run_command("server", self.ends[0], *command)
        wait_until(lambda: server.ended() or listens(self.ends[0].pid, port), 30, "the server listens")
        client = self.run_command("client", self.ends[1], *command, "10.77.3.1")
        self.assertIn("100 iters", client.expect_success(60))
        server.expect_success(60)
        self.assertIn("using a private udp one", server.err())

    def test_integrity_of_two_machines(self):
        """Where no daemon answers, each side's private one is on its machine's network."""
        port = free_tcp_port()
        server = self.uroce_alone("server", self.ends[0], "integrity", "--server", "--port", port)
        wait_until(lambda: server.ended() or "listening" in server.out(), 30, "the server listens")
        client = self.uroce_alone("client", self.ends[1], "integrity", "--connect", "10.77.3.1", "--port", port, "--ops", 500, "--qps", 2)
        self.assertIn("500 operations, 0 errors", client.expect_success(60))
        server.expect_success(60)
        self.assertIn("using a private udp one", client.err())

    def test_run_net_address(self):
        answer = self.run_command("address", self.ends[0], "--net", "fd00:78::1", "--", "ibv_devinfo", "-v")
        self.assertIn("fd00:78::1, RoCE v2", answer.expect_success(30))

    def test_run_net_refusals(self):
        self.ends[0].run("ip", "route", "del", "default")
        nowhere = self.run_command("nowhere", self.ends[0], "--net", "--", "true")
        self.assertEqual(nowhere.expect_failure(30), 1)
        self.assertIn("this machine has no default route", nowhere.err())
        unended = self.run_command("unended", self.ends[0], "--net", "true")
        self.assertEqual(unended.expect_failure(30), 2)

    def test_run_net_port_taken(self):
        """One line names the process that has the port and says what to do."""
        first = self.daemon("first", self.ends[0], "udp", "10.77.3.1/24")
        second = self.run_command("second", self.ends[0], "--net", "--", "true")
        self.assertEqual(second.expect_failure(30), 1)
        lines = [line for line in second.err().splitlines() if "4791" in line]
        self.assertEqual(len(lines), 1, second.err())
        self.assertRegex(lines[0], rf"UDP port 4791 of 10\.77\.3\.1 is taken by uroced \(process {first.process.pid}\): "
                                   r"let programs use that one \(UROCE_SOCKET\), stop it, or take another address")
