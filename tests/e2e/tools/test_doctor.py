"""`uroce doctor` on healthy machines and on others."""

import json
import os
import socket
import subprocess

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.lossy_wire import LossyUdp
from harness.process import wait_until
from harness.programs import Shape, start, start_pair
from harness.udp_wire import IPV4
from harness.wires import Endpoint, free_tcp_port

_NOBODY = 65534


class Doctor(E2eCase):
    def _findings(self, weight, daemon=None, **options):
        """The findings of one severity, "about: sentence" each, and the exit status."""
        answer = self.uroce("doctor", "--json", daemon=daemon, **options)
        report = json.loads(answer.stdout)
        self.assertEqual(answer.returncode, 1 if report["problems"] else 0, answer.stdout)
        return [f"{finding['about']}: {finding['sentence']}" for finding in report["findings"] if finding["weight"] == weight]

    def test_a_program_that_uroce_run_starts_has_no_problem(self):
        answer = self.uroce("run", "--", self.tree.uroce, "doctor", env={"PATH": os.environ["PATH"], "TMPDIR": self.folder})
        print(answer.stdout, flush=True)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertNotIn("a card of its own", answer.stdout)  # /sys shows our card
        for words in ("no problem found", "use GID index 1 for 10.0.0.1/24", "verbs_shim/libibverbs.so.1"):
            self.assertIn(words, answer.stdout)

    def test_no_daemon(self):
        problems = self._findings("PROBLEM", env={**os.environ, "UROCE_SOCKET": f"{self.folder}/none.sock"})
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(f"daemon: no daemon listens on {self.folder}/none.sock: start it", problems[0])

    def test_a_socket_that_keeps_us_out(self):
        daemon = self.wire("loopback").server.daemon
        os.chmod(self.folder, 0o755)
        os.chmod(daemon.socket, 0o600)
        problems = self._findings("PROBLEM", daemon, user=_NOBODY, group=_NOBODY, extra_groups=[], cwd="/")
        self.assertIn("daemon: you may not connect to", problems[0])

    def test_a_link_that_is_down(self):
        wire = self.wire("veth")
        wire.namespaces[1].run("ip", "link", "set", "wire", "down")
        daemon = wire.server.daemon
        wait_until(lambda: any(problem.startswith("link: uroce0") for problem in self._findings("PROBLEM", daemon)), 60, "the link is named")

    def test_port_4791_is_taken(self):
        """By a program that isn't a daemon, in a network namespace of its own."""
        script = ("import socket, subprocess, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('0.0.0.0', 4791)); "
                  f"sys.exit(subprocess.call(['{self.tree.uroce}', 'doctor']))")
        answer = subprocess.run(["unshare", "-rn", "/usr/bin/python3", "-c", script], capture_output=True, text=True, timeout=60, check=False,
                                env={**os.environ, "UROCE_SOCKET": f"{self.folder}/none.sock"})
        if "unshare" in answer.stderr:
            self.skipTest(answer.stderr.strip())
        self.assertEqual(answer.returncode, 1)
        self.assertIn("UDP port 4791 is taken, and not by this daemon", answer.stdout)


class DoctorOfTheWay(E2eCase):
    """`uroce doctor PEER`: between two namespaces, through a router."""

    def _examine(self, rule=None):
        """Returns its output and exit status."""
        wire = type("Router", (LossyUdp,), {"loss": 0, "mtu": 4200})(self)
        if rule:
            wire.router.run("nft", f"add rule ip lossy forward {rule}")
        program = os.path.join(self.tree.root, "apps", "doctor", "uroce-doctor")
        server, client = start_pair(self, wire, program, ("--gid-index", IPV4), shape=Shape(port=("--port",), serve=("--serve",)))
        status = client.wait(120)
        print(client.out(), client.err(), flush=True)
        if not rule:
            server.expect_success(30)
        return client.out(), status

    def test_a_way_that_is_well(self):
        out, status = self._examine()
        self.assertEqual(status, 0)
        self.assertIn("mtu: IP packets to 10.77.3.1 have 4200 bytes at most", out)
        self.assertEqual(out.count("every byte right"), 6)
        self.assertIn("the path to the peer works", out)

    def test_a_firewall(self):
        out, status = self._examine("udp dport 4791 drop")
        self.assertEqual(status, 1)
        self.assertIn("TCP reaches the peer and RDMA doesn't: let UDP port 4791 through", out)

    def test_a_link_with_a_smaller_mtu(self):
        out, status = self._examine("meta length > 2000 drop")
        self.assertEqual(status, 1)
        self.assertIn("messages of 1024 bytes arrive and larger ones don't", out)

    def test_two_loopbacks(self):
        """Each reaches itself only, whatever their addresses are."""
        endpoints = []
        for number in (1, 2):
            daemon = Daemon(self.tree, self.folder, self.logs, f"uroced{number}", "loopback", f"10.77.0.{number}/24")
            self.addCleanup(daemon.end)
            endpoints.append(Endpoint(daemon, f"10.77.0.{number}", "127.0.0.1"))
        wire = type("Loopbacks", (), {"server": endpoints[0], "client": endpoints[1]})
        program = os.path.join(self.tree.root, "apps", "doctor", "uroce-doctor")
        _, client = start_pair(self, wire, program, shape=Shape(port=("--port",), serve=("--serve",)))
        self.assertEqual(client.wait(120), 1)
        self.assertIn("uroce0 is a loopback, which reaches programs of its own daemon only", client.out())
        self.assertNotIn("firewall", client.out())

    def _meet(self, number, *options):
        """Of a server at `--gid-index` 1 and a client with these options on one loopback: both ends."""
        daemon = Daemon(self.tree, self.folder, self.logs, f"uroced{number}", "loopback", "10.77.0.1/24", ("--ip", "fd00:77::1/64"))
        self.addCleanup(daemon.end)
        port = free_tcp_port()
        server = start(self, Endpoint(daemon, "10.77.0.1", "127.0.0.1"), [self.tree.uroce, "doctor", "--serve", "--port", port], "serve")
        wait_until(lambda: "listening" in server.out() or server.ended(), 60, "the peer waits")
        return server, self.uroce("doctor", "127.0.0.1", "--port", port, *options, daemon=daemon)

    def test_addresses_that_do_not_fit(self):
        server, answer = self._meet(1, "--gid-index", 2)
        self.assertEqual((answer.returncode, answer.stderr), (1, ""), answer.stdout)
        self.assertIn("PROBLEM  the address at this end is IPv6 and the peer's is IPv4: name addresses of one kind by --gid-index", answer.stdout)
        self.assertEqual(server.wait(60), 1)
        self.assertIn("uroce doctor: the address at this end is IPv4 and the peer's is IPv6", server.err())

    def test_an_index_without_an_address(self):
        _, answer = self._meet(1, "--gid-index", 50, "--json")
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertIn("the GID index has no address at this end", json.loads(answer.stdout)["advice"])

    def test_a_host_that_is_unknown(self):
        answer = self.uroce("doctor", "no.such.host.invalid", daemon=self.wire("loopback").server.daemon)
        self.assertEqual((answer.returncode, len(answer.stderr.splitlines())), (1, 1), answer.stderr)

    def test_a_value_is_not_a_peer(self):
        """Nothing is started for a command line without PEER."""
        answer = self.uroce("doctor", "--port", "5", env={"PATH": os.environ["PATH"], "UROCE_SOCKET": f"{self.folder}/none.sock"})
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertNotIn("private", answer.stderr)

    def test_nobody_waits(self):
        answer = self.uroce("doctor", "127.0.0.1", "--port", free_tcp_port(), daemon=self.wire("loopback").server.daemon)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("run `uroce doctor --serve` there", answer.stderr)

    def test_a_peer_that_cannot_be_reached_as_json(self):
        """Scripts get an object with the sentence, as for every other failure."""
        daemon = self.wire("loopback").server.daemon
        for peer, words in (("127.0.0.1", "nothing listens at 127.0.0.1, TCP port"), ("no.such.host.invalid", "no.such.host.invalid is no host that is known here")):
            with self.subTest(peer):
                answer = self.uroce("doctor", peer, "--port", free_tcp_port(), "--json", daemon=daemon)
                self.assertEqual(answer.returncode, 1, answer.stderr)
                report = json.loads(answer.stdout)
                self.assertIn(words, report["advice"])
                self.assertEqual(report["transfers"], [])

    def test_both_words(self):
        answer = self.uroce("doctor", "--serve", "x", daemon=self.wire("loopback").server.daemon)
        self.assertEqual(answer.returncode, 2, answer.stderr)

    def test_a_port_that_is_none(self):
        answer = self.uroce("doctor", "--serve", "--port", "x", daemon=self.wire("loopback").server.daemon)
        self.assertEqual(answer.returncode, 2, answer.stderr)

    def test_a_port_that_is_taken(self):
        with socket.create_server(("", 0)) as other:
            port = other.getsockname()[1]
            answer = self.uroce("doctor", "--serve", "--port", port, daemon=self.wire("loopback").server.daemon)
        self.assertEqual(answer.returncode, 1)
        self.assertIn(f"uroce doctor: can't listen on TCP port {port} (--port names another): Address already in use", answer.stderr)
