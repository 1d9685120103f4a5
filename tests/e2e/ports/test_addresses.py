"""Addresses of a port beyond its first, added while the daemon runs: IPv6, and in VLANs."""

import sys

from harness import vlan_tags
from harness.case import E2eCase
from harness.process import Process, wait_until
from harness.rdmacm import ping_with_many, run_cm_pair, run_perftest_cm_pair, start_client
from harness.wires import free_tcp_port

_SERVER, _CLIENT = "10.77.5.1", "10.77.5.2"


class AddressCase(E2eCase):
    def _add(self, end, prefix):
        answer = self.uroce("addr", "add", prefix, daemon=end.daemon)
        self.assertEqual(answer.returncode, 0, answer.stderr)


class Devices(AddressCase):
    """A daemon of two ports: --device says which, in front of the address or behind it."""

    def _lines(self, daemon, *words):
        answer = self.uroce("addr", *words, daemon=daemon)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout.splitlines()

    def test_of_one_device(self):
        daemon = self.wire("loopback", "--port", "loopback", "--ip", "10.88.0.1/24").server.daemon
        self.assertEqual({line.split("\t")[0] for line in self._lines(daemon)}, {"uroce0", "uroce1"})
        self._lines(daemon, "add", "10.88.1.1/24", "--device", "uroce1")
        self._lines(daemon, "--device", "uroce1", "add", "10.88.2.1/24")
        listed = self._lines(daemon, "--device", "uroce1")
        self.assertEqual({line.split("\t")[0] for line in listed}, {"uroce1"})
        self.assertLessEqual({"10.88.0.1/24", "10.88.1.1/24", "10.88.2.1/24"}, {line.split("\t")[2] for line in listed})
        self._lines(daemon, "del", "10.88.1.1", "--device", "uroce1")
        self.assertNotIn("10.88.1.1/24", "".join(self._lines(daemon, "--device", "uroce1")))

    def test_of_none(self):
        daemon = self.wire("loopback").server.daemon
        for words in ((), ("add", "10.88.0.1/24"), ("del", "10.77.0.1")):
            answer = self.uroce("addr", *words, "--device", "uroce9", daemon=daemon)
            self.assertEqual((answer.returncode, answer.stdout), (1, ""))
            self.assertIn("there is no device uroce9", answer.stderr)


class Claims(AddressCase):
    def test_an_address_of_two_hosts_is_reported_by_both(self):
        """The second announces it when it gets it; the first answers, or announces its own."""
        wire = self.wire("veth")
        claimed = set()
        for address, length in (("10.77.5.9", 24), ("fd00:75::9", 64)):
            claimed.add(address)
            for end in (wire.server, wire.client):
                self._add(end, f"{address}/{length}")
            for end, other in ((wire.server, wire.client), (wire.client, wire.server)):
                mac = self.status(other.daemon)["devices"][0]["mac"]
                claim = f"{address} is also claimed by {mac}"
                wait_until(lambda end=end, claim=claim: claim in end.daemon.process.err(), 30, claim)
                shown = {one["address"].split("/")[0]: one.get("claimed_by") for one in self.status(end.daemon)["devices"][0]["addresses"]}
                self.assertEqual({one: by for one, by in shown.items() if by is not None}, dict.fromkeys(claimed, mac))
                self.assertIn(f"{address}/{length}, also claimed by {mac}", self.uroce("status", daemon=end.daemon).stdout)
        wire.stop()


class Ipv6(AddressCase):
    def test_connections(self):
        """Between two daemons that find each other by neighbour discovery; many clients at once. glibc understands IPv6
        addresses only where the kernel has one: on --interface."""
        wire = self.wire("veth", "--interface", "uroce7")
        self._add(wire.server, "fd00:77::1/64")
        self._add(wire.client, "fd00:77::2/64")
        ping_with_many(self, wire, "fd00:77::1", 4, 30)
        run_cm_pair(self, wire, ["ucmatose", "-b", "fd00:77::1", "-p", "PORT", "-c", 10],
                    ["ucmatose", "-s", "fd00:77::1", "-b", "fd00:77::2", "-p", "PORT", "-c", 10])
        run_cm_pair(self, wire, ["udaddy", "-b", "fd00:77::1", "-C", 5],
                    ["udaddy", "-s", "fd00:77::1", "-b", "fd00:77::2", "-C", 5], port=7174)


class Vlans(AddressCase):
    """Two daemons, joined by a veth pair, whose addresses 10.77.5.x are in VLANs."""

    def _given_vlan(self):
        wire = self.wire("veth")
        self._add(wire.server, f"{_SERVER}/24@5")
        self._add(wire.client, f"{_CLIENT}/24@5")
        return wire

    def _gid_index(self, end, address):
        lines = self.uroce("addr", daemon=end.daemon).stdout.splitlines()
        return next(line.split("\t")[1] for line in lines if line.split("\t")[2] == address)

    def _watch_tags(self, end, name):
        watch = Process([*end.prefix, sys.executable, vlan_tags.__file__, "wire"], f"tags-{name}", self.logs)
        self.addCleanup(watch.end)
        wait_until(lambda: watch.ended() or "ready" in watch.out(), 60, "vlan_tags")
        return watch

    def test_connections(self):
        """Connections, data and datagrams go in VLAN 5, and in the port's untagged network as before."""
        wire = self._given_vlan()
        for address in (_SERVER, wire.server.address):
            common = ["-a", address, "-p", "PORT", "-C", 5, "-V"]
            run_cm_pair(self, wire, ["rping", "-s", *common], ["rping", "-c", *common])
        run_cm_pair(self, wire, ["udaddy", "-b", _SERVER, "-C", 5],
                    ["udaddy", "-s", _SERVER, "-b", _CLIENT, "-C", 5], port=7174)

    def test_paths_by_gid_index(self):
        """Programs that exchange GIDs themselves name the VLAN by the index of the address."""
        wire = self._given_vlan()
        index = self._gid_index(wire.server, f"{_SERVER}/24@5")
        self.assertEqual(index, self._gid_index(wire.client, f"{_CLIENT}/24@5"))
        run_perftest_cm_pair(self, wire, ["ib_send_lat", "-R", "-F", "-n", 20, "-p", "PORT", "-x", index], _SERVER)

    def test_the_type_of_service_becomes_the_priority(self):
        """16, little delay, becomes priority 6 in both sides' VLAN tags, from the first request on."""
        wire = self._given_vlan()
        watches = [self._watch_tags(end, name) for end, name in ((wire.server, "server"), (wire.client, "client"))]
        run_cm_pair(self, wire, ["ucmatose", "-b", _SERVER, "-p", "PORT", "-c", 2, "-t", 16],
                    ["ucmatose", "-s", _SERVER, "-b", _CLIENT, "-p", "PORT", "-c", 2, "-t", 16])
        for watch in watches:
            self.assertEqual(watch.out(), "ready\n5 6\n", watch.name)

    def test_another_vlan_is_another_network(self):
        """Addresses in another VLAN aren't answered for, neither with another tag nor untagged."""
        wire = self.wire("veth")
        clients = []
        for number, (server_vlan, client_vlan) in enumerate((("@5", "@6"), ("@5", ""), ("", "@5"))):
            server = f"10.77.{5 + number}.1"
            self._add(wire.server, f"{server}/24{server_vlan}")
            self._add(wire.client, f"10.77.{5 + number}.2/24{client_vlan}")
            clients.append(start_client(self, wire, ["rping", "-c", "-a", server, "-p", "PORT"], free_tcp_port()))
        for client in clients:
            client.expect_failure(10)
            self.assertIn("RDMA_CM_EVENT_ADDR_ERROR", client.err())

    def test_loopback(self):
        wire = self.wire("loopback", "--ip", f"{_SERVER}/24@5")
        common = ["-a", _SERVER, "-p", "PORT", "-C", 5, "-V"]
        run_cm_pair(self, wire, ["rping", "-s", *common], ["rping", "-c", *common])
