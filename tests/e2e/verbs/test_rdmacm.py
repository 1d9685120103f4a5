"""Debian's librdmacm and its programs, unmodified, over the connection manager of the daemon.

On the loopback both programs share a daemon; with veth each has its own, in a network namespace of its own.
"""

import filecmp
import os
import signal
import time

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.process import Process, expect_success_while_moving, wait_until
from harness.programs import start
from harness.rdmacm import (connections, ping_with_many, run_cm_pair, run_perftest_cm_pair, start_client,
                            start_server)
from harness.wires import Macvlan, free_tcp_port

_WIRES = ("loopback", "veth")
_CLIENT_SECONDS_MAX = 60
# Of a program whose connections and data make no progress at all.
_STILL_SECONDS_MAX = 30


def on_both(case):
    """Class decorator: `check_x(wire)` becomes test_x_loopback and test_x_veth (two namespaces)."""
    for name in [name for name in dir(case) if name.startswith("check_")]:
        for wire in _WIRES:
            def test(self, _check=name, _wire=wire):
                getattr(self, _check)(self.wire(_wire))
            test.__doc__ = getattr(case, name).__doc__
            setattr(case, f"test_{name.removeprefix('check_')}_{wire}", test)
    return case


@on_both
class Programs(E2eCase):
    """Each exits with 0 on both sides; a server without an end is stopped when its clients have succeeded."""

    def _run_endless(self, wire, server_command, client_commands, port=None):
        port = port or free_tcp_port()
        server = start_server(self, wire, server_command, port)
        clients = [start_client(self, wire, command, port) for command in client_commands]
        for client in clients:
            client.expect_success(_CLIENT_SECONDS_MAX)
        self.assertFalse(server.ended(), server.last_words())
        server.end()
        wire.expect_running()

    def check_rping(self, wire):
        common = ["-a", "SERVER", "-p", "PORT", "-C", 10, "-V"]
        run_cm_pair(self, wire, ["rping", "-s", *common], ["rping", "-c", *common])

    def check_rping_many_clients(self, wire):
        """-P: one server, a thread and a connection for each client."""
        ping_with_many(self, wire, wire.server.address, 6, _CLIENT_SECONDS_MAX)

    def check_ucmatose(self, wire):
        """Many connections, data in both directions."""
        run_cm_pair(self, wire, ["ucmatose", "-b", "SERVER", "-p", "PORT", "-c", 50],
                    ["ucmatose", "-s", "SERVER", "-b", "CLIENT", "-p", "PORT", "-c", 50])

    def check_ucmatose_migrates(self, wire):
        """-m: ids are moved to another event channel once they are connected."""
        run_cm_pair(self, wire, ["ucmatose", "-b", "SERVER", "-p", "PORT", "-c", 5, "-m"],
                    ["ucmatose", "-s", "SERVER", "-p", "PORT", "-c", 5, "-m"])

    def check_rdma_client(self, wire):
        """Synchronous ids (rdma_create_ep), a wildcard listener."""
        run_cm_pair(self, wire, ["rdma_server", "-p", "PORT"], ["rdma_client", "-s", "SERVER", "-p", "PORT"])

    def check_rdma_xclient(self, wire):
        """-c r: reliable connection; x: XRC."""
        for kind in ("r", "x"):
            run_cm_pair(self, wire, ["rdma_xserver", "-p", "PORT", "-c", kind],
                        ["rdma_xclient", "-s", "SERVER", "-p", "PORT", "-c", kind])

    def check_cmtime(self, wire):
        self._run_endless(wire, ["cmtime", "-b", "SERVER", "-p", "PORT", "-c", 1000],
                          [["cmtime", "-s", "SERVER", "-p", "PORT", "-c", 1000]])

    def check_rcopy(self, wire):
        """Its client takes no port, so both use the default one: the port space is the daemon's own."""
        source, target = (os.path.join(self.folder, name) for name in ("source", "target"))
        with open(source, "wb") as file:
            file.write(os.urandom(3_000_000))
        self._run_endless(wire, ["rcopy"], [["rcopy", source, f"{wire.server.address}:{target}"]], port=7427)
        self.assertTrue(filecmp.cmp(source, target, shallow=False))

    def check_riostream(self, wire):
        for options in ((), ("-T", "b"), ("-T", "v")):
            self._run_stream(wire, "riostream", "-S", 4096, "-I", 5, "-C", 5, *options)

    def check_rstream(self, wire):
        for options in ((), ("-T", "b"), ("-T", "n"), ("-T", "v"), ("-T", "r"), ("-T", "b", "-k", 5), ("-B", 65536)):
            self._run_stream(wire, "rstream", "-S", 4096, "-I", 20, "-C", 5, *options)

    def _run_stream(self, wire, program, *options):
        run_cm_pair(self, wire, [program, "-b", "SERVER", "-p", "PORT", *options],
                    [program, "-s", "SERVER", "-p", "PORT", *options])

    def check_rstream_async(self, wire):
        """rstream treats a hang-up that is seen together with the last bytes as a failure (it returns POLLHUP, 16).
        That is a race on a busy machine, so it is retried."""
        for _ in range(60):
            port = free_tcp_port()
            options = ["-p", "PORT", "-S", 64, "-I", 10, "-C", 1, "-T", "a"]
            server = start_server(self, wire, ["rstream", "-b", "SERVER", *options], port)
            client = start_client(self, wire, ["rstream", "-s", "SERVER", *options], port)
            code = client.wait(_CLIENT_SECONDS_MAX)
            server.expect_success(_CLIENT_SECONDS_MAX)
            if code == 0:
                return
            self.assertEqual(code, 16, client.last_words())
        self.fail("rstream -T a never ended with 0")

    def check_perftest(self, wire):
        """-R: the tools connect with the connection manager."""
        common = ["-R", "-F", "-p", "PORT", "-n", 50, "-s", 1024]
        for tool in (["ib_write_bw"], ["ib_read_lat"], ["ib_send_bw"], ["ib_send_bw", "-c", "UD"]):
            run_perftest_cm_pair(self, wire, [*tool, *common])

    def check_message_server(self, wire):
        """The example that behaves as Lustre's LNet does: a refused version, negotiated queues, credits, 1 MiB transfers."""
        program = os.path.join(self.tree.examples, "message_server")
        served, sent = run_cm_pair(self, wire, [program, "-b", "SERVER", "-p", "PORT", "-c", 1],
                                   [program, "-s", "SERVER", "-p", "PORT", "-n", 20])
        self.assertIn("version 3 was refused, the server speaks 2", sent)
        self.assertIn("took 20 transfers", served)

    def check_udaddy(self, wire):
        """Datagrams: SIDR instead of a connection. Its -p is the port space, its port is always the same."""
        common = ["-c", 10, "-C", 50]
        run_cm_pair(self, wire, ["udaddy", "-b", "SERVER", *common],
                    ["udaddy", "-s", "SERVER", "-b", "CLIENT", *common], port=7174)

    def test_macvlan(self):
        """Frames to groups reach a port whose interface filters them: multicast, and neighbour solicitations."""
        wire = Macvlan(self)
        for end, address in ((wire.server, "fd00:79::1"), (wire.client, "fd00:79::2")):
            answer = self.uroce("addr", "add", f"{address}/64", daemon=end.daemon)
            self.assertEqual(answer.returncode, 0, answer.stderr)
        self.check_mckey(wire)
        for namespace in wire.namespaces:  # else the C library doesn't resolve IPv6 addresses
            namespace.run("ip", "address", "add", "fd00:79::9/128", "dev", "lo")
        server = start(self, wire.client, ["rping", "-s", "-a", "fd00:79::2", "-p", "7174", "-C", "5"], "rping-server")
        wait_until(lambda: server.ended() or connections(self, wire.client.daemon)["listeners"], 30, "rping listens")
        client = start(self, wire.server, ["rping", "-c", "-a", "fd00:79::2", "-p", "7174", "-C", "5"], "rping-client")
        client.expect_success(_CLIENT_SECONDS_MAX)
        server.expect_success(_CLIENT_SECONDS_MAX)

    def check_mckey(self, wire):
        """A multicast group: the receiver has joined when its program has a queue pair in it."""
        group = ["-m", "239.77.1.2", "-C", 20]
        receiver = start_client(self, wire, ["mckey", "-b", "CLIENT", *group], 0)
        wait_until(lambda: receiver.ended() or self._in_group(wire.client, receiver), 30, "the receiver to join")
        sender = start(self, wire.server, ["mckey", "-b", wire.server.address, *map(str, group), "-s"], "sender")
        sender.expect_success(_CLIENT_SECONDS_MAX)
        receiver.expect_success(_CLIENT_SECONDS_MAX)

    def _in_group(self, endpoint, process):
        return any(session["pid"] == process.pid and any("groups" in qp for qp in session["qps"])
                   for session in self.status(endpoint.daemon)["sessions"])


class Addresses(E2eCase):
    def test_rping_ipv6(self):
        """The server listens at its IPv6 address."""
        wire = self.wire("loopback", "--ip", "fd00:77::1/64")
        common = ["-a", "fd00:77::1", "-p", "PORT", "-C", 5, "-V"]
        run_cm_pair(self, wire, ["rping", "-s", *common], ["rping", "-c", *common])

    def test_dead_address(self):
        """Nobody has the address: ADDR_ERROR, in bounded time. Nobody listens: REJECTED."""
        wire = self.wire("veth")
        for address, event in (("10.77.2.99", "RDMA_CM_EVENT_ADDR_ERROR"), ("SERVER", "RDMA_CM_EVENT_REJECTED")):
            client = start_client(self, wire, ["rping", "-c", "-a", address, "-p", "PORT", "-C", 1], free_tcp_port())
            client.expect_failure(10)
            self.assertIn(event, client.err())


class Death(E2eCase):
    """A program that dies takes only its own objects with it, and its peer gets an event."""

    def _endless_rping(self, wire):
        port = free_tcp_port()
        common = ["-a", "SERVER", "-p", "PORT", "-C", 10_000_000]
        server = start_server(self, wire, ["rping", "-s", *common], port)
        client = start_client(self, wire, ["rping", "-c", *common], port)
        wait_until(lambda: client.ended() or self._established(wire.client), 30, "the connection")
        return server, client

    def _established(self, endpoint):
        return any(connection["state"] == "established"
                   for connection in connections(self, endpoint.daemon)["connections"])

    def _check_killed(self, wire_name, doomed_is_server):
        wire = self.wire(wire_name)
        server, client = self._endless_rping(wire)
        doomed, other = (server, client) if doomed_is_server else (client, server)
        doomed.kill()
        other.wait(20)
        self.assertIn("DISCONNECT EVENT", other.err())
        for endpoint in (wire.server, wire.client):
            wait_until(lambda end=endpoint: connections(self, end.daemon)["ids"] == 0, 60, "all ids to vanish")

    def test_killed_client_loopback(self):
        self._check_killed("loopback", False)

    def test_killed_server_loopback(self):
        self._check_killed("loopback", True)

    def test_killed_client_veth(self):
        self._check_killed("veth", False)

    def test_killed_server_veth(self):
        self._check_killed("veth", True)


class Restart(E2eCase):
    """A program goes on with the next daemon, as with a card that was unplugged and plugged in again."""

    _ADDRESS, _ROUNDS, _ROUND_SECONDS_MAX = "10.77.0.1", 4, 30

    def _start(self):
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "loopback", f"{self._ADDRESS}/24")
        self.addCleanup(daemon.end)
        return daemon

    def _check(self, source, listening, end, lost=None):
        """Between two rounds the daemon is ended, and started again when the program has said this line, if any."""
        command = [self.compiled(source, "gcc", "-lrdmacm", "-libverbs"), listening, self._ADDRESS, self._ROUNDS]
        daemon = self._start()
        program = Process(command, source, self.logs, daemon.environment())
        self.addCleanup(program.end)
        for number in range(1, self._ROUNDS):
            self._wait_for(program, f"round {number}\n")
            end(daemon)
            if lost:
                self._wait_for(program, f"{lost} {number}\n")
            daemon = self._start()
        program.expect_success(self._ROUND_SECONDS_MAX)
        self.assertIn(f"round {self._ROUNDS}\n", program.out())
        wait_until(lambda: connections(self, daemon)["ids"] == 0, 60, "all ids to vanish")

    def _wait_for(self, program, line):
        wait_until(lambda: program.ended() or line in program.out(), self._ROUND_SECONDS_MAX, line)
        self.assertFalse(program.ended(), program.last_words())

    def test_killed(self):
        self._check("replug_check.c", self._ADDRESS, lambda daemon: daemon.process.kill())

    def test_stopped(self):
        """The program listens at every address, so its listener has no device."""
        self._check("replug_check.c", "0.0.0.0", lambda daemon: daemon.stop())

    def test_removal_killed(self):
        """The program keeps its event channel, and learns by removal events which of its ids are lost."""
        self._check("removal_check.c", self._ADDRESS, lambda daemon: daemon.process.kill(), "lost")

    def test_removal_stopped(self):
        self._check("removal_check.c", "0.0.0.0", lambda daemon: daemon.stop(), "lost")

    def test_removal_restarted_at_once(self):
        self._check("removal_check.c", self._ADDRESS, lambda daemon: daemon.process.kill())


    def test_rsocket_killed(self):
        """The daemon is killed under rconnect, which waits for an answer."""
        daemon = self._start()
        program = Process([self.compiled("rconnect_check.c", "gcc", "-lrdmacm", "-libverbs"), self._ADDRESS], "rconnect_check",
                          self.logs, daemon.environment())
        self.addCleanup(program.end)
        wait_until(lambda: program.ended() or connections(self, daemon)["connections"], self._ROUND_SECONDS_MAX, "connecting")
        self.assertFalse(program.ended(), program.last_words())
        daemon.process.kill()
        program.expect_success(self._ROUND_SECONDS_MAX)


class Standstill(E2eCase):
    """A daemon that doesn't run for some seconds, while connecting or transferring, doesn't break any connection."""

    def _check(self, server_command, client_command, stopped):
        for seconds, moment in ((0.4, self._connects), (0.4, self._sends), (1, self._sends), (3, self._connects),
                                (3, self._sends)):
            wire, port = self.wire("veth"), free_tcp_port()
            still, other = (wire.server, wire.client) if stopped == "server" else (wire.client, wire.server)
            server = start_server(self, wire, server_command, port)
            client = start_client(self, wire, client_command, port)
            wait_until(lambda: client.ended() or moment(other), 30, "the moment")
            still.daemon.process.signal(signal.SIGSTOP)
            time.sleep(seconds)
            still.daemon.process.signal(signal.SIGCONT)
            for program in (client, server):
                expect_success_while_moving(program, lambda wire=wire: self._progress(wire), _STILL_SECONDS_MAX)
            wire.stop()

    def _progress(self, wire):
        """Changes as long as connections or data move, however slowly on a busy machine."""
        return [(connections(self, endpoint.daemon), self._requests_sent(endpoint))
                for endpoint in (wire.server, wire.client)]

    def _connects(self, endpoint):
        return connections(self, endpoint.daemon)["connections"]

    def _sends(self, endpoint):
        return any(self._requests_sent(endpoint))

    def _requests_sent(self, endpoint):
        return [qp["requests_sent"] for session in self.status(endpoint.daemon)["sessions"] for qp in session["qps"]]

    def _check_ucmatose(self, stopped):
        self._check(["ucmatose", "-b", "SERVER", "-p", "PORT", "-c", 100, "-C", 100],
                    ["ucmatose", "-s", "SERVER", "-b", "CLIENT", "-p", "PORT", "-c", 100, "-C", 100], stopped)

    def _check_rping(self, stopped):
        common = ["-a", "SERVER", "-p", "PORT", "-C", 2000, "-V"]
        self._check(["rping", "-s", *common], ["rping", "-c", *common], stopped)

    def test_ucmatose_connecting(self):
        self._check_ucmatose("client")

    def test_ucmatose_accepting(self):
        self._check_ucmatose("server")

    def test_rping_connecting(self):
        self._check_rping("client")

    def test_rping_accepting(self):
        self._check_rping("server")


class Leaks(E2eCase):
    def test_cycles(self):
        """Connections are made and closed: no ids, queue pairs or memory are leaked. 10,000 with --long."""
        rounds = 34 if os.environ.get("UROCE_E2E_LONG") else 3
        wire = self.wire("loopback")
        port = free_tcp_port()
        server = start_server(self, wire, ["cmtime", "-b", "SERVER", "-p", "PORT", "-c", 300], port)
        sizes = []
        for _ in range(rounds):
            client = start_client(self, wire, ["cmtime", "-s", "SERVER", "-p", "PORT", "-c", 300], port)
            client.expect_success(_CLIENT_SECONDS_MAX)
            wait_until(lambda: self._is_idle(wire.server.daemon), 30, "the connections to be gone")
            sizes.append(self._resident_kib(wire.server.daemon))
        server.end()
        wait_until(lambda: connections(self, wire.server.daemon)["ids"] == 0, 60, "the listener to vanish")
        self.assertLess(sizes[-1], sizes[0] + 8192, sizes)

    def _is_idle(self, daemon):
        left = connections(self, daemon)
        qps = sum(len(session["qps"]) for session in self.status(daemon)["sessions"])
        return left["ids"] == 1 and not left["connections"] and qps == 0

    def _resident_kib(self, daemon):
        with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
