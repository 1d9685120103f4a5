"""Ports whose peer isn't there yet, or goes and comes again."""

import os

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.process import wait_until
from harness.programs import run_pair
from harness.wires import MTU, AfXdp, Endpoint, Wire


class ServerFirst(Wire):
    """virtio_user as the server; the vhost side comes when it is told to."""

    def _join(self):
        self.path = os.path.join(self.setting.folder, "wire.sock")
        first = self._start("uroced-a", f"net_virtio_user0,path={self.path},queues=1,server=1", "10.77.1.1/24",
                            arguments=["--mtu", MTU])
        self.server = Endpoint(first, "10.77.1.1", "127.0.0.1")

    def bring_client(self):
        second = self._start("uroced-b", f"net_vhost0,iface={self.path},queues=1,client=1", "10.77.1.2/24",
                             arguments=["--mtu", MTU])
        self.client = Endpoint(second, "10.77.1.2", "127.0.0.1")


class AfXdpCarries(E2eCase):
    def test_af_xdp(self):
        wire = AfXdp(self)
        run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", "-n", 100)
        wire.stop()


class WaitsForItsPeer(E2eCase):
    def _link_is_up(self, daemon: Daemon):
        return self.status(daemon)["devices"][0]["link"] == "up"

    def test_virtio_user_server(self):
        """It serves programs at once, with its link down; the peer's coming brings the link up."""
        wire = ServerFirst(self)
        self.assertFalse(self._link_is_up(wire.server.daemon))
        wire.bring_client()
        wait_until(lambda: self._link_is_up(wire.server.daemon), 60, "the link to come up")
        run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", "-n", 100)
        wire.stop()

    def test_virtio_user_server_ends_without_a_peer(self):
        wire = ServerFirst(self)
        wire.stop()
        self.assertFalse(os.path.exists(wire.path))
