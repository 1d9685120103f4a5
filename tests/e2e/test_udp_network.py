"""Whose addresses a udp port takes."""

import os

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.namespace import Namespace, NamespacesRefused, veth_pair
from harness.process import ProcessFailed
from harness.udp_wire import NOBODY



class NetworkCase(E2eCase):
    """Two namespaces, a veth pair as their default route, and no daemons yet."""

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o777)
        try:
            self.ends = [Namespace(name, self.logs) for name in ("a", "b")]
            for end in self.ends:
                self.addCleanup(end.end)
            veth_pair(*self.ends, 1500, ["10.77.3.1/24", "10.77.3.2/24"])
            for number, end in enumerate(self.ends, 1):
                end.run("ip", "address", "add", f"fd00:78::{number}/64", "dev", "wire", "nodad")
                end.run("ip", "route", "add", "default", "dev", "wire")
        except NamespacesRefused as refusal:
            self.skipTest(str(refusal))

    def daemon(self, name, end, *port):
        os.chmod(self.folder, 0o777)
        daemon = Daemon(self.tree, self.folder, self.logs, name, port[0], port[1:], prefix=[*end.prefix(), *NOBODY])
        self.addCleanup(daemon.end)
        return daemon


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

    def test_udp_interface_refusals(self):
        for port, words in ((["udp,iface=nothere"], "there is no network interface nothere here"),
                            (["udp,iface=wire", "10.77.3.1"], "give it addresses of this machine"),
                            (["udp"], "give it addresses of this machine")):
            with self.assertRaises(ProcessFailed) as failure:
                self.daemon(f"refused-{self.next_number()}", self.ends[0], *port)
            self.assertIn(words, str(failure.exception))
