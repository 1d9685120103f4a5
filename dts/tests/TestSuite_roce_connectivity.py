"""What a card answers as an Ethernet neighbour: ARP, ICMP echo; and frames that aren't for it."""

from api.capabilities import LinkTopology, requires_link_topology
from api.test import verify
from framework.test_suite import func_test

from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6NDOptDstLLAddr
from scapy.layers.l2 import ARP

from uroce_dts import packets
from uroce_dts.bench import IOVA, KEY, RoceSuite
from uroce_dts.packets import flat, pattern


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceConnectivity(RoceSuite):
    """Before any RDMA: does the card exist on the network?"""

    @func_test
    def arp_request(self) -> None:
        """ARP.

        Steps:
            Ask for the card's address.

        Verify:
            One reply, with the MAC address that the card says it has.
        """
        replies = [packet[ARP] for packet in self.capture([flat(packets.arp_request(self.ends))], 0.3) if ARP in packet]
        verify(len(replies) == 1, f"{len(replies)} ARP replies")
        verify(replies[0].op == 2 and replies[0].hwsrc == self.ends.card_mac, f"the reply is {replies[0]!r}")
        verify(
            replies[0].psrc == self.ends.card_ip and replies[0].pdst == self.ends.peer_ip, f"addresses: {replies[0]!r}"
        )

    @func_test
    def arp_for_somebody_else(self) -> None:
        """ARP for an address that isn't the card's.

        Steps:
            Ask for the address after the card's.

        Verify:
            Silence.
        """
        got = self.capture([flat(packets.arp_request(self.ends, "10.99.0.77"))], 0.3)
        verify(not [packet for packet in got if ARP in packet], f"it answered: {got}")

    @func_test
    def icmp_echo(self) -> None:
        """Ping.

        Steps:
            Send ICMP echo requests with 0, 1, 56 and 1400 bytes.

        Verify:
            Each is answered with its own identifier, sequence number and bytes.
        """
        for sequence, length in enumerate((0, 1, 56, 1400)):
            sent = packets.echo_request(self.ends, 7, sequence, pattern(3, length))
            got = [
                bytes(packet)
                for packet in self.capture(
                    [flat(sent), flat(packets.echo_request(self.ends, sequence=60000 + sequence))]
                )
            ]
            replies = [data for data in got if len(data) >= 42 and data[23] == 1 and data[34] == 0]
            verify(len(replies) == 1, f"{len(replies)} replies to {length} bytes")
            verify(replies[0][38 : 42 + length] == sent[38:], "the reply's payload differs")

    @func_test
    def neighbour_solicitation(self) -> None:
        """Neighbour discovery.

        Steps:
            Ask by a solicitation for the card's link-local address, and for another one.

        Verify:
            One advertisement, solicited, with the card's MAC address.
        """
        gids = [line.partition("=")[2] for line in self.shell.run("port") if line.startswith("gid=fe80")]
        verify(bool(gids), "the card has no link-local address")
        asked = [flat(packets.neighbour_solicitation(self.ends, target)) for target in (gids[0], "fe80::bad")]
        got = [packet for packet in self.capture(asked, 0.5) if ICMPv6ND_NA in packet]
        verify(len(got) == 1, f"{len(got)} advertisements")
        advertisement = got[0][ICMPv6ND_NA]
        verify(advertisement.tgt == gids[0] and advertisement.S == 1, f"{advertisement!r}")
        verify(got[0][ICMPv6NDOptDstLLAddr].lladdr == self.ends.card_mac, f"{got[0]!r}")

    @func_test
    def another_ip_address(self) -> None:
        """Packets for another IP address.

        Steps:
            Send a good WRITE to the card's MAC address, but to another IP address.

        Verify:
            No answer; it is counted as not addressed to the card.
        """
        self.qp()
        self.region()
        ends = packets.replace(self.ends, card_ip="10.99.0.55")
        data = packets.request(ends, "RC_WRITE_ONLY", 0x111, 100, pattern(1, 16), address=IOVA, rkey=KEY, ack=True)
        self.expect(self.exchange(data))
        self.expect_memory("A+0:16", seed=0)

    @func_test
    def another_mac_address(self) -> None:
        """Frames for another station.

        Steps:
            Send a good WRITE and an ARP request to the card's IP address, but to another MAC address.

        Verify:
            No answer; where the port passes such frames on, they count as not addressed to the card.
        """
        self.qp()
        self.region()
        ends = packets.replace(self.ends, card_mac="02:00:00:00:00:77")
        data = packets.request(ends, "RC_WRITE_ONLY", 0x111, 100, pattern(1, 16), address=IOVA, rkey=KEY, ack=True)
        before = self.drops().get("not_our_address", 0)
        self.expect(self.exchange(data))
        self.expect_memory("A+0:16", seed=0)
        if self.config.port:
            counted = self.drops().get("not_our_address", 0) - before
            verify(counted == 1, f"{counted} frames were counted as not_our_address")
        asked = packets.arp_request(self.ends)
        got = self.capture([flat(bytes.fromhex("020000000077") + bytes(asked)[6:])], 0.3)
        verify(not [packet for packet in got if ARP in packet], f"it answered: {got}")

    @func_test
    def unknown_queue_pair(self) -> None:
        """A queue pair that doesn't exist.

        Steps:
            Send a WRITE to a number that no queue pair has.

        Verify:
            Silence; it is counted as unknown_qp.
        """
        self.expect_dropped(
            "unknown_qp", self.request("RC_WRITE_ONLY", 0, b"abcd", qpn=0x5555, address=IOVA, rkey=KEY, ack=True)
        )

    @func_test
    def another_peer(self) -> None:
        """A packet of a queue pair that isn't the connection's peer.

        Steps:
            Send a good WRITE from another IP address.

        Verify:
            Silence; the memory is untouched.
        """
        self.qp()
        self.region()
        self.expect(
            self.exchange(
                self.request(
                    "RC_WRITE_ONLY", 100, pattern(1, 16), ends=self.ends.stranger(), address=IOVA, rkey=KEY, ack=True
                )
            )
        )
        self.expect_memory("A+0:16", seed=0)

    @func_test
    def short_frames_are_padded(self) -> None:
        """Ethernet's least length.

        Steps:
            Send a WRITE of nothing, padded with zeroes to 60 bytes, and one padded to 100.

        Verify:
            Both are acknowledged: the length is the IP header's.
        """
        self.qp()
        self.region()
        first = self.request("RC_WRITE_ONLY", 100, b"", address=IOVA, rkey=KEY, ack=True)
        second = self.request("RC_WRITE_ONLY", 101, b"", address=IOVA, rkey=KEY, ack=True)
        self.expect(self.exchange(first.ljust(60, b"\0")), "ACK psn=100")
        self.expect(self.exchange(second.ljust(100, b"\0")), "ACK psn=101")
