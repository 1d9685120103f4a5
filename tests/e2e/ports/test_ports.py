"""Ports whose peer isn't there yet, or goes and comes again."""

import os

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.process import Process, ProcessFailed, wait_until
from harness.programs import run_pair, start_pair
from harness.wires import MTU, AfXdp, Endpoint, Shm, Wire


class ServerFirst(Wire):
    """virtio_user as the server; the vhost side starts later, on request."""

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


class TakenAddress(E2eCase):
    def test_taken_address_af_packet(self):
        """Another daemon on the same interface would receive, and refuse, connections to an address of the first one."""
        wire = self.wire("veth")
        first, namespace = wire.server.daemon, wire.namespaces[0]
        taken = rf"UDP port 4791 of 10\.77\.2\.1 is taken by uroced \(process {first.process.pid}\): .*stop it"
        common = [["--mtu", MTU], namespace.prefix()]
        with self.assertRaisesRegex(ProcessFailed, taken):
            self.addCleanup(Daemon(self.tree, self.folder, self.logs, "refused", wire.port, "10.77.2.1/24", *common).end)
        second = Daemon(self.tree, self.folder, self.logs, "second", wire.port, "10.77.2.9/24", *common)
        self.addCleanup(second.end)
        self.assertRegex(self.uroce("addr", "add", "10.77.2.1/24", daemon=second).stderr, taken)
        self.assertNotIn("10.77.2.1/24", self.uroce("addr", daemon=second).stdout)
        run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", "-n", 100)
        second.stop()
        wire.stop()


class NoDriver(E2eCase):
    def test_a_driver_that_dpdk_does_not_have(self):
        """Another start wouldn't change it (EX_CONFIG)."""
        daemon = Process([*self.tree.uroced, "--socket", f"{self.folder}/x.sock", "--ip", "10.77.1.1/24", "--port", "net_nosuch0"], "uroced", self.logs,
                         {**os.environ, "XDG_RUNTIME_DIR": self.folder})
        self.addCleanup(daemon.end)
        self.assertEqual(daemon.expect_failure(30), os.EX_CONFIG)
        self.assertIn("DPDK has no driver for the name net_nosuch0: correct it, or install the driver; Debian's are in librte-meta-net", daemon.err())


class ShmComesAgain(E2eCase):
    def _check_comes_again(self, side):
        """Killed in the midst of traffic and restarted, a daemon reconnects to the other, which never stopped."""
        wire = Shm(self)
        for _ in range(2):
            _, client = start_pair(self, wire, "ib_write_bw", ("-F", "-x", 1, "-D", 1, "--run_infinitely"))
            wait_until(lambda client=client: "65536" in client.out() or client.ended(), 60, "ib_write_bw's first row")
            wire.kill(side)
            wait_until(lambda: not self._is_up(wire.other(side)), 60, "the link to go down")
            wire.start_again(side)
            for end in (wire.server, wire.client):
                wait_until(lambda end=end: self._is_up(end.daemon), 60, "the link to come up")
            run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", "-n", 100)
        wire.other(side).expect_running()
        wire.stop()
        self.assertFalse(os.path.exists(wire.path))

    def _is_up(self, daemon):
        return self.status(daemon)["devices"][0]["link"] == "up"

    def test_shm_server_comes_again(self):
        self._check_comes_again("server")

    def test_shm_client_comes_again(self):
        self._check_comes_again("client")

    def test_shm_ends_without_a_peer(self):
        wire = Shm(self)
        wire.kill("client")
        wait_until(lambda: not self._is_up(wire.server.daemon), 60, "the link to go down")
        wire.server.daemon.stop()
        self.assertFalse(os.path.exists(wire.path))


class WaitsForItsPeer(E2eCase):
    def _link_is_up(self, daemon: Daemon):
        return self.status(daemon)["devices"][0]["link"] == "up"

    def test_virtio_user_server(self):
        """It serves programs at once, with its link down; the link comes up when the peer connects."""
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
