"""Malformed packets."""

from api.capabilities import LinkTopology, requires_link_topology
from api.test import verify
from framework.test_suite import func_test

from uroce_dts.bench import IOVA, KEY, RoceSuite
from uroce_dts.packets import pattern, seal


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceIcrcAndMalformed(RoceSuite):
    """Nothing is answered, the right counter is incremented, and the next good packet works."""

    def set_up_test_case(self):
        super().set_up_test_case()
        self.qp()
        self.region()
        self.psn = 100

    def good(self, length=32):
        return self.request("RC_WRITE_ONLY", self.psn, pattern(3, length), address=IOVA, rkey=KEY, ack=True)

    def still_works(self):
        self.expect(self.exchange(self.good()), f"ACK psn={self.psn}")
        self.psn += 1

    def expect_all_silent(self, frames):
        got = self.exchange(*frames)
        verify(not got, f"answered: {list(map(str, got))}")
        self.expect_memory("A+0:64", seed=0)
        self.still_works()

    def changed(self, at, value):
        data = bytearray(self.good())
        data[at] = value
        return seal(bytes(data))

    @func_test
    def every_byte_flipped(self) -> None:
        """Every covered byte, one at a time.

        Steps:
            Flip a bit of each byte after the Ethernet header that the ICRC covers.

        Verify:
            Silence; the memory is untouched; a good packet works.
        """
        data = self.good()
        free = {15, 22, 24, 25, 40, 41, 46}  # fields that routers may change
        frames = []
        for at in range(14, len(data)):
            if at not in free:
                frames.append(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        self.expect_all_silent(frames)

    @func_test
    def wrong_icrc(self) -> None:
        """Each bit of the ICRC.

        Steps:
            Flip each of the 32 bits of a good packet's ICRC.

        Verify:
            Each is counted as bad_icrc.
        """
        data = self.good()
        frames = [data[:-4] + (int.from_bytes(data[-4:], "big") ^ 1 << bit).to_bytes(4, "big") for bit in range(32)]
        self.expect_dropped("bad_icrc", *frames)
        self.still_works()

    @func_test
    def truncated_at_every_byte(self) -> None:
        """Truncated frames.

        Steps:
            Cut a good frame after each of its bytes.

        Verify:
            Silence; a good packet works.
        """
        data = self.good()
        self.expect_all_silent([data[:end].ljust(14, b"\0") for end in range(14, len(data))])

    @func_test
    def routers_may_change(self) -> None:
        """The fields that the ICRC doesn't cover.

        Steps:
            Change type of service, time to live, UDP checksum, FECN and BECN.

        Verify:
            The packets are good.
        """
        for at, value in ((15, 0xBA), (22, 9), (40, 0x12), (46, 0xC0)):
            data = bytearray(self.good())
            data[at] = value
            if at != 46 and at != 40:
                data[24:26] = b"\0\0"
                total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(14, 34, 2))
                total = (total & 0xFFFF) + (total >> 16)
                data[24:26] = (~(total + (total >> 16)) & 0xFFFF).to_bytes(2, "big")
            self.expect(self.exchange(bytes(data)), f"ACK psn={self.psn}")
            self.psn += 1

    @func_test
    def unknown_opcodes(self) -> None:
        """Opcodes that aren't RC's.

        Steps:
            Send each of the 256 opcodes that isn't a request of RC, with a right ICRC.

        Verify:
            Silence or a NAK; the daemon lives; another queue pair works.
        """
        known = set(range(0x0D)) | {0x13, 0x14, 0x16, 0x17, 0x1C, 0x1D}
        frames = [self.changed(42, opcode) for opcode in range(256) if opcode not in known]
        got = self.exchange(*frames)
        verify(all(answer.name == "RC_ACKNOWLEDGE" for answer in got), f"answered: {list(map(str, got))}")
        self.shell.ask("destroy q")
        self.qp()
        self.still_works()

    @func_test
    def wrong_transport_version(self) -> None:
        """A version that isn't 0.

        Steps:
            Send TVer 1 to 15.

        Verify:
            Silence; a good packet works.
        """
        data = self.good()
        self.expect_all_silent([self.changed(43, data[43] | version) for version in range(1, 16)])

    @func_test
    def wrong_pad_count(self) -> None:
        """A pad count that doesn't match.

        Steps:
            Say 1, 2 and 3 pad bytes in a WRITE whose length says none.

        Verify:
            No ACK; the memory is untouched.
        """
        for pad in (1, 2, 3):
            got = self.exchange(self.changed(43, self.good()[43] | pad << 4))
            verify(all(answer.syndrome_name() != "ACK" for answer in got), f"acknowledged with pad {pad}")
            self.shell.ask("destroy q")
            self.qp()
        self.expect_memory("A+0:64", seed=0)

    @func_test
    def length_differs_from_the_reth(self) -> None:
        """A WRITE_ONLY whose payload differs from its RETH.

        Steps:
            Say 31, 33 and 4096 in the RETH of 32 bytes.

        Verify:
            NAK: invalid request, each time; nothing is written.
        """
        for said in (31, 33, 4096):
            self.expect(
                self.exchange(
                    self.request("RC_WRITE_ONLY", 100, pattern(3, 32), address=IOVA, rkey=KEY, ack=True, length=said)
                ),
                "NAK:1 psn=100",
            )
            self.shell.ask("destroy q")
            self.qp()
            self.expect_memory("A+0:64", seed=0)

    @func_test
    def ip_length_beyond_the_frame(self) -> None:
        """Wrong IP and UDP lengths.

        Steps:
            Say more bytes in the IP header, and in the UDP header, than the frame has.

        Verify:
            Silence; a good packet works.
        """
        data = self.good()
        longer = int.from_bytes(data[16:18], "big") + 8
        self.expect_all_silent(
            [
                seal(data[:16] + longer.to_bytes(2, "big") + data[18:]),
                seal(data[:38] + (longer - 20).to_bytes(2, "big") + data[40:]),
            ]
        )

    @func_test
    def ip_fragments(self) -> None:
        """Fragments.

        Steps:
            Set the flag for more fragments, and an offset.

        Verify:
            Silence; a good packet works.
        """
        data = self.good()
        self.expect_all_silent(
            [seal(data[:20] + bytes([0x20, 0]) + data[22:]), seal(data[:20] + bytes([0, 5]) + data[22:])]
        )

    @func_test
    def another_udp_port(self) -> None:
        """Not RoCE.

        Steps:
            Send a good packet to UDP port 4792.

        Verify:
            Silence; a good packet works.
        """
        data = self.good()
        self.expect_all_silent([seal(data[:36] + (4792).to_bytes(2, "big") + data[38:])])

    @func_test
    def another_pkey(self) -> None:
        """A P_Key that isn't the default partition's.

        Steps:
            Send P_Key 0x1234.

        Verify:
            Silence; it is counted as bad_pkey.
        """
        self.expect_dropped(
            "bad_pkey", self.request("RC_WRITE_ONLY", 100, pattern(3, 8), address=IOVA, rkey=KEY, ack=True, pkey=0x1234)
        )
        self.still_works()
