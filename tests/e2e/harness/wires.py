"""The three ways in which two programs are joined. Each wire has a `server` and a `client` Endpoint."""

import os
import socket
from dataclasses import dataclass, field

from .daemon import START_SECONDS_MAX, Daemon
from .namespace import Namespace, NamespacesRefused, veth_pair
from .process import wait_until

MTU = 4200  # carries path MTU 4096


@dataclass
class Endpoint:
    """Where a program runs, and the addresses that it needs."""
    daemon: Daemon
    address: str  # the card's address, by which the other side's programs name it
    tcp_host: str  # where the other side's program reaches this one by TCP
    pid: int = 0  # the process whose /proc/net lists this endpoint's TCP sockets; 0: ours
    prefix: list = field(default_factory=list)

    def environment(self):
        return self.daemon.environment()


class Wire:
    """`setting` makes folders and cleans up (E2eCase does)."""

    def __init__(self, setting, arguments=()):
        self.setting, self.arguments = setting, list(arguments)
        self.daemons = []
        self._join()

    def _start(self, name, port, ip, prefix=(), arguments=()):
        daemon = Daemon(self.setting.tree, self.setting.folder, self.setting.logs, name, port, ip,
                        [*self.arguments, *arguments], prefix=list(prefix))
        self.setting.addCleanup(daemon.end)
        self.setting.addCleanup(daemon.keep_status, self.setting.logs)
        self.daemons.append(daemon)
        return daemon

    def expect_running(self):
        for daemon in self.daemons:
            daemon.expect_running()

    def stop(self):
        for daemon in self.daemons:
            daemon.stop()


class Loopback(Wire):
    """One daemon whose port hands back what it sends; both programs use it."""

    def _join(self):
        daemon = self._start("uroced", "loopback", "10.77.0.1/24", arguments=["--mtu", MTU])
        self.server = self.client = Endpoint(daemon, "10.77.0.1", "127.0.0.1")


class SharedMemory(Wire):
    """Two daemons of one machine joined by shared memory."""

    def _join(self):
        path = os.path.join(self.setting.folder, "wire.sock")
        mtu = ["--mtu", MTU]
        first = self._start("uroced-a", f"net_vhost0,iface={path},queues=1", "10.77.1.1/24", arguments=mtu)
        second = self._start("uroced-b", f"net_virtio_user0,path={path},queues=1", "10.77.1.2/24", arguments=mtu)
        self.server = Endpoint(first, "10.77.1.1", "127.0.0.1")
        self.client = Endpoint(second, "10.77.1.2", "127.0.0.1")


class Shm(Wire):
    """Two daemons of one machine joined by shm ports; one can be killed and started anew."""

    addresses = {"server": "10.77.1.1", "client": "10.77.1.2"}

    def _join(self):
        self.path = os.path.join(self.setting.folder, "wire.sock")
        for side in self.addresses:
            self.start_again(side)
        for daemon in self.daemons:  # each takes up the memory of the other by itself
            wait_until(daemon.link_is_up, START_SECONDS_MAX, f"the link of {daemon.name} up")

    def start_again(self, side):
        address = self.addresses[side]
        daemon = self._start(f"uroced-{side}", f"shm,path={self.path}", f"{address}/24", arguments=["--mtu", MTU])
        setattr(self, side, Endpoint(daemon, address, "127.0.0.1"))

    def kill(self, side):
        daemon = getattr(self, side).daemon
        daemon.process.kill()
        self.daemons.remove(daemon)

    def other(self, side):
        return (self.client if side == "server" else self.server).daemon


class Veth(Wire):
    """Two namespaces joined by a veth pair, a daemon with an af_packet port in each; the kernel has the addresses too."""

    port = "net_af_packet0,iface=wire,blocksz=65536,framesz=16384,framecnt=1024,qdisc_bypass=1"
    mtu = MTU
    addresses = ("10.77.2.1", "10.77.2.2")

    def _join(self):
        try:
            namespaces = self.namespaces = [self._namespace(name) for name in ("a", "b")]
            self._link(*namespaces)
        except NamespacesRefused as refusal:
            self.setting.skipTest(str(refusal))
        ends = []
        for namespace, address in zip(namespaces, self.addresses):
            daemon = self._start(f"uroced-{namespace.name}", self.port, f"{address}/24", namespace.prefix(),
                                 ["--mtu", self.mtu])
            ends.append(Endpoint(daemon, address, address, namespace.pid, namespace.prefix()))
        self.server, self.client = ends

    def _link(self, first, second):
        veth_pair(first, second, self.mtu, [f"{address}/24" for address in self.addresses])

    def _namespace(self, name):
        namespace = Namespace(name, self.setting.logs)
        self.setting.addCleanup(namespace.end)
        return namespace


class Macvlan(Veth):
    """As Veth, but the client's port is a macvlan interface, which filters multicast frames: only those to
    joined groups pass."""

    def _link(self, first, second):
        veth_pair(first, second, self.mtu, [f"{self.addresses[0]}/24", "192.0.2.2/24"], ("wire", "below"))
        second.run("ip", "link", "add", "link", "below", "name", "wire", "mtu", str(self.mtu), "type", "macvlan", "mode", "bridge")
        second.run("ip", "address", "add", f"{self.addresses[1]}/24", "dev", "wire")
        second.run("ip", "link", "set", "wire", "up")


class AfXdp(Veth):
    """As Veth, but by AF_XDP sockets, which take all frames: the programs' TCP needs a pair of its own."""

    port = "net_af_xdp0,iface=wire"
    mtu = 1500

    def _join(self):
        super()._join()
        self.server.tcp_host, self.client.tcp_host = "10.77.3.1", "10.77.3.2"
        veth_pair(*self.namespaces, self.mtu, [f"{end.tcp_host}/24" for end in (self.server, self.client)],
                  ("talk", "talk"))


WIRES = {"loopback": Loopback, "shared_memory": SharedMemory, "shm": Shm, "veth": Veth}


def free_tcp_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
