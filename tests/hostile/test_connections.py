"""Attacks on a program that accepts connections, by another user's programs on the same card."""

import json

from harness.process import Process, wait_until
from harness.victim import ATTACKER, VICTIM, as_user
from harness.wires import free_tcp_port
from hostile_case import ATTACK_SECONDS, HostileCase

_ADDRESS = "10.77.0.1"
_CLIENT = 65532  # the user whose connections are to be made
_CONNECTIONS = 3
_REQUEST_MS = 20  # what the accepting program does for each request
_CONNECT_SECONDS_MAX = 3.0


class Connections(HostileCase):
    def start_peer(self, uid, *arguments):
        process = Process([*as_user(uid), self.tree.hostile_program("cm_peer"), *arguments],
                          f"{self.next_number()}-{arguments[0]}", self.logs, self.daemon.environment(), cwd=self.folder)
        self.addCleanup(process.end)
        return process

    def connect(self, port):
        """Makes connections; returns the milliseconds that each took."""
        client = self.start_peer(_CLIENT, "connect", _ADDRESS, port, _CONNECTIONS)
        return json.loads(client.expect_success(60))

    def test_withdrawn_requests(self):
        """Requests that are withdrawn as soon as they are sent, for a program that takes 20 ms for each that it fetches: others'
        connections are made in time, during the flood and after it."""
        port = free_tcp_port()
        server = self.start_peer(VICTIM, "listen", _ADDRESS, port, _REQUEST_MS)
        wait_until(lambda: "listening" in server.out() or server.ended(), 30, "the listener")
        alone = self.connect(port)
        attack = self.begin("withdraw", [*as_user(ATTACKER), self.tree.hostile_program("cm_peer"), "withdraw", _ADDRESS, port])
        self.attacks.append(attack)
        self.let_pass(ATTACK_SECONDS)
        beside = self.connect(port)
        self.expect_attacked()
        attack.end()
        after = self.connect(port)
        print("connections take", {"alone_ms": alone, "beside_ms": beside, "after_ms": after}, flush=True)
        self.assertLess(max(beside + after), 1000 * _CONNECT_SECONDS_MAX)
        self.assertFalse(server.ended(), server.last_words())
