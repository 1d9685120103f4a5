"""Attacks by any host on the network."""

import json

from harness.programs import start
from harness.process import wait_until
from harness.wires import free_tcp_port
from hostile_case import ATTACK_SECONDS, HostileCase, Victim

_QPS = 3_000
_CONNECTIONS = 3
# A connection takes milliseconds, beside compilers a second; a lost request is repeated after more than 4 s.
_CONNECT_SECONDS_MAX = 3.0
_FLOOD = 100_000  # frames a second


class Link(HostileCase):
    def start_daemon(self):
        self.network = self.wire("veth")
        return self.network.server.daemon

    def card_mac(self):
        return json.loads(self.network.namespaces[0].run("ip", "-json", "link", "show", "wire"))[0]["address"]

    def flood(self, name, *arguments):
        """Sends raw frames from the other end of the link, where the attacker may be root."""
        return self.attack(name, "wire", self.card_mac(), self.network.server.address, *arguments, _FLOOD, uid=0,
                           prefix=self.network.client.prefix)

    def test_arp_flood(self):
        """Replies that move a peer of 3,000 queue pairs to another Ethernet address, 100,000 a second."""
        peer = self.network.client.address
        self.check_victim(lambda: self.flood("arp", peer), ["--connected", _QPS, peer])

    def test_request_flood(self):
        """100,000 requests a second from one machine, for a program that accepts all requests: another machine's connections are
        made in time, during the flood and after it."""
        port = free_tcp_port()
        server = start(self, self.network.server, [self.tree.hostile_program("cm_peer"), "listen",
                                                   self.network.server.address, port], "listener")
        wait_until(lambda: "listening" in server.out() or server.ended(), 30, "the listener")
        alone = self.connect(port)
        victim = Victim(self, self.daemon)
        attack = self.flood("requests", "10.77.2.66", port)
        self.let_pass(ATTACK_SECONDS)
        beside = self.connect(port)
        during = victim.phase("beside")
        self.expect_attacked()
        attack.end()
        after = self.connect(port)
        print("connections take", {"alone_ms": alone, "beside_ms": beside, "after_ms": after}, flush=True)
        self.assertLess(max(beside + after), 1000 * _CONNECT_SECONDS_MAX)
        self.assertEqual(during["errors"], [], "the victim's errors")
        self.assertGreater(during["answers"], 0)
        self.assertGreater(during["writes"], 0)
        self.expect_answered(during)
        self.assertFalse(server.ended(), server.last_words())

    def connect(self, port):
        """Makes connections; returns the milliseconds that each took."""
        client = start(self, self.network.client, [self.tree.hostile_program("cm_peer"), "connect",
                                                   self.network.server.address, port, _CONNECTIONS],
                       f"{self.next_number()}-connect")
        return json.loads(client.expect_success(120))
