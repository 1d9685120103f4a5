"""A wire with uroce at one end and Linux's Soft-RoCE (rdma_rxe) at the other, and pairs of programs on it.

  programs - uroce's libibverbs - uroced - tap0 | virtio-net - rdma_rxe - Debian's libibverbs - programs
                     a network namespace here   |   the guest
"""

import contextlib
import os
import re
import time

from ends import RxeEnd, UroceEnd
from guest import Guest
from harness.case import E2eCase
from harness.daemon import Daemon
from harness.namespace import Namespace, NamespacesRefused
from harness.process import ProcessFailed, wait_until
from harness.programs import Shape, names_listener
from harness.wires import MTU

PORTS = {"udp": "udp,iface=tap0",
         "af_packet": "net_af_packet0,iface=tap0,blocksz=65536,framesz=16384,framecnt=1024,qdisc_bypass=1"}
INTEGRITY = Shape(port=("--port",), serve=("--server",), connect=("--connect",))  # apps/integrity
# For integrity (perftest: -u): a second for each try, since a guest that shares its processors answers nothing for a while, and rxe (6.1)
# must not go back while acknowledgements arrive: its req_retry() reads the completer's PSN and the oldest request while the completer
# moves them. Then all messages get another PSN than before, seen in a capture with --timeout 10, and the peer may receive one twice.
# Not with losses, which rxe waits for as long.
PATIENT = ("--timeout", 18)
_TAP = "tap,id=net,ifname=tap0,script=no,downscript=no"
_CARD = f"virtio-net-pci,netdev=net,host_mtu={MTU},romfile="
_LISTEN_SECONDS_MAX = 30
_PAIR_SECONDS_MAX = 60
_FAILURES_MAX = 3  # of a case: more would only take long
_FIRST_PORT = 18600  # the namespace and the guest are the case's own
# perftest with -R connects twice, and its client may come before the server listens again (harness/rdmacm.py).
_CAME_EARLY = re.compile("REJECTED; error: 8|UNREACHABLE; error: 1[^0-9]")
_EARLY_CLIENTS_MAX = 10


class LinuxPeerCase(E2eCase):
    """Booting takes longer than most programs, so a case runs many on one wire. Each prints a line; failures come together at the end."""

    seconds_max = 600 if os.environ.get("UROCE_E2E_LONG") else 180

    def join(self, port, *arguments):
        """Makes both ends. `arguments` are uroced's."""
        self.need("ip", "rdma", "ibv_rc_pingpong")
        self.need_root("it makes a tap device")
        self.start_attempts()
        try:
            self.namespace = self._namespace_with_tap()
        except NamespacesRefused as refusal:
            self.skipTest(str(refusal))
        self.rxe = RxeEnd(Guest(self, networks=[_TAP], devices=[_CARD], namespace=self.namespace))
        self.start_daemon(port, *arguments)

    def start_attempts(self):
        self._next_port, self._failures = _FIRST_PORT, []

    def _namespace_with_tap(self):
        namespace = Namespace("wire", self.logs)
        self.addCleanup(namespace.end)
        namespace.run("ip", "tuntap", "add", "tap0", "mode", "tap")
        namespace.run("ip", "link", "set", "tap0", "mtu", str(MTU), "addrgenmode", "none", "txqueuelen", "10000")
        namespace.run("ip", "address", "add", f"{UroceEnd.address}/24", "dev", "tap0")
        namespace.run("ip", "address", "add", f"{UroceEnd.address_v6}/64", "dev", "tap0", "nodad")
        namespace.run("ip", "link", "set", "tap0", "up")
        return namespace

    def start_daemon(self, port, *arguments):
        """The one before must have ended."""
        addresses = [] if port == "udp" else [f"{UroceEnd.address}/24", f"{UroceEnd.address_v6}/64"]
        daemon = Daemon(self.tree, self.folder, self.logs, f"{self.next_number()}-uroced", PORTS[port], addresses,
                        ["--mtu", MTU, *arguments], prefix=self.namespace.prefix())
        self.addCleanup(daemon.end)
        self.addCleanup(daemon.keep_status, self.logs)
        self.uroce_end = UroceEnd(self, self.namespace, daemon)

    def attempt(self, what, run):
        """Calls run() and prints how it went; the next program is tried also when this one fails."""
        start, failed = time.monotonic(), ""
        try:
            run()
            for end in (self.uroce_end, self.rxe):
                end.expect_running()
        except AssertionError as failure:
            failed = "FAILED: "
            self._failures.append(f"{what}: {failure}")
        print(f"{time.monotonic() - start:5.1f} s  {failed}{what}", flush=True)
        if len(self._failures) >= _FAILURES_MAX or self.rxe.guest.process.ended():
            self.expect_no_failures()

    def expect_no_failures(self):
        if self._failures:
            self.fail(f"{len(self._failures)} programs failed: {'; '.join(self._failures)}")

    def run_pair(self, program, *arguments, shape=Shape(), family=4, servers=("uroce", "rxe")):
        """With each end as the server. The programs find each other by TCP; GID stands for the index of an end's address."""
        def run(server, client):
            port = self.next_port()
            common = [program, *shape.port, port, *arguments]
            self._run([*common, *shape.serve], [*common, *shape.connect, server.host], server, client, port,
                      lambda: any(names_listener(table, port) for table in server.tcp_tables()), family)
        self.each_way(f"{os.path.basename(program)} {_text(arguments)}{', IPv6' if family == 6 else ''}", run, servers)

    def run_cm_pair(self, server_command, client_command, port=None, endless=False, servers=("uroce", "rxe")):
        """The programs find each other by the connection manager. An `endless` server is ended when its client has succeeded."""
        def run(server, client):
            own_port = port or self.next_port()
            self._run(server_command, client_command, server, client, own_port, lambda: server.cm_listens(own_port), endless=endless)
        self.each_way(_text(client_command), run, servers)

    def run_perftest_cm_pair(self, *command):
        """A tool of perftest, with -R."""
        def run(server, client):
            for _ in range(_EARLY_CLIENTS_MAX):
                port = self.next_port()
                common = [*command, "-R", "-p", "PORT"]
                try:
                    return self._run(common, [*common, "SERVER"], server, client, port, lambda: server.cm_listens(port))
                except ProcessFailed as failure:
                    if not _CAME_EARLY.search(str(failure)):
                        raise
            raise ProcessFailed(f"{command[0]} came too early {_EARLY_CLIENTS_MAX} times")
        self.each_way(f"{_text(command)} -R", run)

    def run_mckey(self):
        """A multicast group: the receiver has joined when its kernel or its daemon filters for the group's address."""
        def run(receiver, sender):
            label, command = f"{self.next_number()}-mckey", ["mckey", "-m", "239.77.1.2", "-C", "20", "-b"]
            receiving = receiver.start([*command, receiver.address], f"{label}-receiver-{receiver.name}")
            try:
                wait_until(lambda: receiving.ended() or receiver.is_in_group(), _LISTEN_SECONDS_MAX, "the receiver to join")
                sending = sender.start([*command, sender.address, "-s"], f"{label}-sender-{sender.name}")
                for program in (sending, receiving):
                    program.expect_success(_PAIR_SECONDS_MAX)
            finally:
                with contextlib.suppress(ProcessFailed):
                    receiving.end()
        self.each_way("mckey", run)

    def each_way(self, what, run, servers=("uroce", "rxe")):
        """run(server, client), with each end as the server."""
        ends = {"uroce": (self.uroce_end, self.rxe), "rxe": (self.rxe, self.uroce_end)}
        for name in servers:
            self.attempt(f"{what}, {name} serves", lambda name=name: run(*ends[name]))

    def _run(self, server_command, client_command, server, client, port, listens, family=4, endless=False):
        """Starts the client when the server listens; both must succeed. Names in capitals, also between colons, stand for what they
        say."""
        label = f"{self.next_number()}-{os.path.basename(server_command[0])}"
        values = {"SERVER": server.address, "CLIENT": client.address, "SERVER_V6": server.address_v6, "PORT": port}

        def start(end, role, command):
            own = {**values, "GID": end.gids[family]}
            words = [":".join(str(own.get(part, part)) for part in str(word).split(":")) for word in command]
            return end.start(words, f"{label}-{role}-{end.name}")
        serving = start(server, "server", server_command)
        programs = [serving]
        try:
            wait_until(lambda: serving.ended() or listens(), _LISTEN_SECONDS_MAX, f"{label} listening")
            if serving.ended():
                serving.expect_success(0)
            programs.insert(0, start(client, "client", client_command))
            for program in programs[:1] if endless else programs:
                program.expect_success(_PAIR_SECONDS_MAX)
        finally:
            for program in programs:
                with contextlib.suppress(ProcessFailed):  # what went wrong before is the reason
                    program.end()

    def next_port(self):
        self._next_port += 1
        return self._next_port


def _text(words):
    return " ".join(map(str, words))
