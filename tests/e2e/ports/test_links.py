"""Interfaces that go down, lose their carrier or their MTU, are deleted and made again, below ports of a running daemon."""

import re
import time

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.namespace import Namespace, NamespacesRefused, veth_pair
from harness.process import wait_until
from harness.programs import run_pair, start, start_pair
from harness.udp_wire import IPV4, Udp
from harness.wires import AfXdp, Endpoint, Veth

PORT_ERR_SECONDS_MAX = 3
_BACK_SECONDS_MAX = 10
_MTU = 1500  # path MTU 1024


class LinkCase(E2eCase):
    """`wire` has a namespace, a daemon and an endpoint for each end; what happens to interfaces happens at the server's."""

    def setUp(self):
        super().setUp()
        self.wires = {"af_packet": self._af_packet, "udp": lambda: Udp(self)}

    def _af_packet(self):
        wire = type("AfPacket", (Veth,), {"port": "net_af_packet0,iface=wire", "mtu": _MTU})
        return wire(self)

    def device(self, endpoint):
        return self.status(endpoint.daemon)["devices"][0]

    def watch_events(self, endpoint):
        """The output of ibv_asyncwatch, a line per event."""
        watcher = start(self, endpoint, ["stdbuf", "-oL", "ibv_asyncwatch"], "asyncwatch")
        wait_until(lambda: "async event FD" in watcher.out() or watcher.ended(), 60, "ibv_asyncwatch begins")
        return watcher

    def check_trouble(self, wire, bring, words):
        """`bring()` causes the trouble; a program gets the event in time, status and log report it, the log once."""
        watcher = self.watch_events(wire.server)
        begun = time.monotonic()
        bring()
        wait_until(lambda: "IBV_EVENT_PORT_ERR" in watcher.out(), PORT_ERR_SECONDS_MAX, "PORT_ERR")
        print(f"PORT_ERR after {time.monotonic() - begun:.3f} s", flush=True)
        device = self.device(wire.server)
        self.assertEqual(device["link"], "down")
        self.assertRegex(device["trouble"], words)
        self.assertIn(device["trouble"], self.uroce("status", daemon=wire.server.daemon).stdout)
        self._downs = getattr(self, "_downs", 0) + 1
        self.assertEqual(len(re.findall("the link is down", wire.server.daemon.process.err())), self._downs)
        return watcher

    def check_back(self, wire, watcher, mend):
        """`mend()` ends the trouble; the daemon still runs, and new connections work."""
        begun = time.monotonic()
        mend()
        wait_until(lambda: "IBV_EVENT_PORT_ACTIVE" in watcher.out(), _BACK_SECONDS_MAX, "PORT_ACTIVE")
        print(f"PORT_ACTIVE {time.monotonic() - begun:.3f} s after all was mended", flush=True)
        for end in (wire.server, wire.client):
            wait_until(lambda end=end: self.device(end)["link"] == "up", _BACK_SECONDS_MAX, "both links up")
            self.assertEqual(self.device(end)["trouble"], "")
        for _ in range(2):
            run_pair(self, wire, "ibv_rc_pingpong", "-g", IPV4, "-c", "-n", 100)
        wire.stop()

    def make_again(self, wire):
        """Makes the veth pair again as harness.wires made it: same names, new Ethernet addresses."""
        veth_pair(*wire.namespaces, wire.mtu, [f"{address}/24" for address in wire.addresses])


def on_each_port(case):
    """A method `check_port_x(wire)` becomes a test on af_packet and on udp."""
    for name in [name for name in dir(case) if name.startswith("check_port_")]:
        for port in ("af_packet", "udp"):
            def test(self, _check=name, _port=port):
                getattr(self, _check)(self.wires[_port]())
            test.__doc__ = getattr(case, name).__doc__
            setattr(case, f"test_link_{name.removeprefix('check_port_')}_{port}", test)
    return case


@on_each_port
class Links(LinkCase):
    def check_port_down(self, wire):
        """The interface is set down, and up again."""
        end = wire.namespaces[0]
        watcher = self.check_trouble(wire, lambda: end.run("ip", "link", "set", "wire", "down"), r"wire is down \(`ip link")
        self.check_back(wire, watcher, lambda: end.run("ip", "link", "set", "wire", "up"))

    def check_port_carrier(self, wire):
        """The other end goes down: no carrier at this one."""
        other = wire.namespaces[1]
        watcher = self.check_trouble(wire, lambda: other.run("ip", "link", "set", "wire", "down"), "wire has no carrier")
        self.check_back(wire, watcher, lambda: other.run("ip", "link", "set", "wire", "up"))

    def check_port_mtu(self, wire):
        """The interface carries less than the port's path MTU needs."""
        end = wire.namespaces[0]
        watcher = self.check_trouble(wire, lambda: end.run("ip", "link", "set", "wire", "mtu", "700"),
                                     r"has an MTU of 700, and the port's path MTU needs \d+")
        self.check_back(wire, watcher, lambda: end.run("ip", "link", "set", "wire", "mtu", str(wire.mtu)))

    def check_port_made_again(self, wire):
        """The pair is deleted, and made again with the same names and addresses; Ethernet addresses are others then."""
        end = wire.namespaces[0]
        watcher = self.check_trouble(wire, lambda: end.run("ip", "link", "del", "wire"),
                                     r"wire isn't there|no interface of this machine has the address")
        self.check_back(wire, watcher, lambda: self.make_again(wire))

    def check_port_flap(self, wire):
        """Connections whose retries last longer than the outage survive it."""
        server, client = start_pair(self, wire, "ib_send_lat", ["-x", IPV4, "-F", "-D", 6, "-u", 18, "-s", 4096])
        wait_until(lambda: self.device(wire.server)["tx_frames"] > 1000 or server.ended(), 30, "traffic")
        for _ in range(3):
            wire.namespaces[0].run("ip", "link", "set", "wire", "down")
            time.sleep(0.3)
            wire.namespaces[0].run("ip", "link", "set", "wire", "up")
            time.sleep(0.7)
        client.expect_success(60)
        server.expect_success(60)
        wire.stop()


class OtherDrivers(LinkCase):
    def test_link_without_address_udp(self):
        """All addresses are taken from the interface, which stays up, and one is given back."""
        wire = Udp(self)
        end = wire.namespaces[0]
        watcher = self.check_trouble(wire, lambda: end.run("ip", "address", "flush", "dev", "wire", "scope", "global"),
                                     "no interface of this machine has the address")
        self.check_back(wire, watcher, lambda: end.run("ip", "address", "add", f"{wire.addresses[0]}/24", "dev", "wire"))

    def test_link_made_again_af_xdp(self):
        """Its driver forgets the buffers that the kernel has, so all of the pool's come to be used: the kernel must know each. (Not more often than
        eight times in a daemon's life.)"""
        wire = AfXdp(self)
        for _ in range(7):
            watcher = self.check_trouble(wire, lambda: wire.namespaces[0].run("ip", "link", "del", "wire"), "wire isn't there")
            self.make_again(wire)
            wait_until(lambda: "IBV_EVENT_PORT_ACTIVE" in watcher.out(), _BACK_SECONDS_MAX, "PORT_ACTIVE")
            watcher.end()
            run_pair(self, wire, "ibv_rc_pingpong", "-g", IPV4, "-c", "-n", 100)
        wire.stop()

    def test_link_made_again_tap(self):
        """The driver owns the interface: deleted, it is made again at once, and the kernel's frames reach the port."""
        try:
            namespace = Namespace("a", self.logs)
        except NamespacesRefused as refusal:
            self.skipTest(str(refusal))
        self.addCleanup(namespace.end)
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "net_tap0,iface=wire", "10.77.4.2/24", prefix=namespace.prefix())
        self.addCleanup(daemon.end)
        end = Endpoint(daemon, "10.77.4.2", "", namespace.pid, namespace.prefix())
        watcher = self.watch_events(end)
        for number in range(1, 4):
            namespace.run("ip", "address", "add", "10.77.4.1/24", "dev", "wire")
            before = self.device(end)["rx_frames"]
            namespace.run("bash", "-c", "echo > /dev/udp/10.77.4.2/9")
            wait_until(lambda before=before: self.device(end)["rx_frames"] > before, 60, "the kernel's ARP request at the port")
            namespace.run("ip", "link", "del", "wire")
            wait_until(lambda number=number: watcher.out().count("IBV_EVENT_PORT_ACTIVE") == number, _BACK_SECONDS_MAX, "PORT_ACTIVE")
            self.assertEqual(watcher.out().count("IBV_EVENT_PORT_ERR"), number)
        daemon.stop()
