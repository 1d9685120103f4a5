"""Libraries that programs use instead of verbs: UCX and libfabric carry data, as Debian has them."""

import os
import shutil

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.namespace import Namespace, NamespacesRefused
from harness.process import ProcessFailed, wait_until
from harness.programs import LISTEN_SECONDS_MAX, listens, start
from harness.wires import Endpoint, Veth, free_tcp_port

_SECONDS_MAX = 60
_ADDRESS, _SECOND = "10.77.0.1", "10.77.0.2"


class RootsUdp(Veth):
    port = "udp"  # root's daemons make /dev/infiniband/uroce0, which UCX wants


class Libraries(E2eCase):
    def _run(self, server, client, server_command, client_command, environment=None):
        """PORT is that of the TCP connection by which the tools meet."""
        if shutil.which(server_command[0]) is None:
            self.skipTest(f"{server_command[0]} isn't installed")
        port = free_tcp_port()
        first, second = ([str(port if word == "PORT" else word) for word in command]
                         for command in (server_command, client_command))
        serving = start(self, server, first, f"{self.next_number()}-server", environment)
        wait_until(lambda: serving.ended() or listens(server.pid, port), LISTEN_SECONDS_MAX, "the server")
        asking = start(self, client, second, f"{self.next_number()}-client", environment)
        asking.expect_success(_SECONDS_MAX)
        serving.expect_success(_SECONDS_MAX)

    def _ucx(self, test, transports, wire=None):
        self.need_character_device()
        wire = wire or self.wire("veth")
        common = ["ucx_perftest", "-t", test, "-n", 200, "-w", 20, "-s", 5000, "-p", "PORT"]
        self._run(wire.server, wire.client, common, [*common, wire.server.address],
                  {"UCX_TLS": transports, "UCX_NET_DEVICES": "uroce0:1"})
        wire.expect_running()

    def test_ucx_reliable(self):
        """Messages over RC, whose queue pairs UCX connects by messages over UD."""
        self._ucx("tag_lat", "rc_verbs,ud_verbs")

    def test_ucx_put(self):
        self._ucx("ucp_put_bw", "rc_verbs,ud_verbs")

    def test_ucx_datagrams(self):
        self._ucx("tag_lat", "ud_verbs")

    def test_ucx_udp(self):
        """UCX rejects a card without GID 0, whichever index it uses in the end: udp ports repeat their first address there."""
        self._ucx("tag_lat", "rc_verbs,ud_verbs", RootsUdp(self))

    def _alone(self, *arguments):
        """A daemon in a namespace of its own, where the kernel has the card's addresses only with --interface."""
        try:
            namespace = Namespace("alone", self.logs)
        except NamespacesRefused as refusal:
            self.skipTest(str(refusal))
        self.addCleanup(namespace.end)
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "loopback", f"{_ADDRESS}/24",
                        ["--mtu", 4200, *arguments], prefix=namespace.prefix())
        self.addCleanup(daemon.end)
        return namespace, Endpoint(daemon, _ADDRESS, _ADDRESS, namespace.pid, namespace.prefix())

    def _addresses(self, namespace):
        return namespace.run("ip", "-o", "address", "show", "uroce7")

    def test_interface_carries_the_addresses(self):
        namespace, end = self._alone("--interface", "uroce7", "--ip", "fd00:77::1/64")
        self.assertIn(f"inet {_ADDRESS}/32", self._addresses(namespace))
        self.assertIn("inet6 fd00:77::1/128", self._addresses(namespace))
        for action, found in (("add", True), ("del", False)):
            answer = self.uroce("addr", action, f"{_SECOND}/24", daemon=end.daemon)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertEqual(_SECOND in self._addresses(namespace), found)
        end.daemon.stop()
        self.assertNotIn("uroce7", namespace.run("ip", "-o", "link", "show"))

    def test_interface_refused(self):
        """Without the privilege to make one: a line that says what to do."""
        os.chmod(self.folder, 0o777)
        with self.assertRaises(ProcessFailed) as failure:
            Daemon(self.tree, self.folder, self.logs, "uroced", "loopback", f"{_ADDRESS}/24",
                   ["--interface", "uroce7"], user=65534, group=65534, extra_groups=[])
        self.assertIn("needs CAP_NET_ADMIN", str(failure.exception))

    def _pingpong(self, kind, provider="verbs", environment=None):
        _, end = self._alone("--interface", "uroce7")
        common = ["fi_pingpong", "-p", provider, "-e", kind, "-I", 10, "-c"]
        self._run(end, end, [*common, "-B", "PORT"], [*common, "-P", "PORT", _ADDRESS], environment)
        end.daemon.expect_running()

    def test_libfabric_messages(self):
        """FI_EP_MSG: reliable connections by the connection manager."""
        self._pingpong("msg")

    def test_libfabric_reliable_datagrams(self):
        # ofi_rxm polls its completion queue and then, every 10 ms, the connection manager. If the last message and the peer's
        # disconnection come in between, it destroys the queue pair, and with it the completion: the server waits for ever, on
        # any card. So it looks for disconnections seldom (in microseconds).
        self._pingpong("rdm", environment={"FI_OFI_RXM_CM_PROGRESS_INTERVAL": "1000000"})

    def test_libfabric_datagrams(self):
        self._pingpong("dgram")

    def test_libfabric_reliable_over_datagrams(self):
        """ofi_rxd repeats and puts into order itself what datagrams carry."""
        self._pingpong("rdm", "verbs;ofi_rxd")
