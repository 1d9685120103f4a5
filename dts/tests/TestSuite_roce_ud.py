"""Datagrams."""

from api.capabilities import LinkTopology, requires_link_topology
from api.test import verify
from framework.test_suite import func_test

from uroce_dts.bench import PEER_QPN, RoceSuite
from uroce_dts.packets import pattern

_QKEY = 0x11111111


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceUd(RoceSuite):
    """IBTA volume 1, 9.8.3: Q_Keys, and 40 bytes of header in front of what is received."""

    def datagram(self, payload, **fields):
        return self.request(
            "UD_SEND_ONLY", fields.pop("psn", 7), payload, **{"qkey": _QKEY, "source_qp": PEER_QPN, **fields}
        )

    @func_test
    def send(self) -> None:
        """A datagram.

        Steps:
            Post a receive; send 32 bytes.

        Verify:
            It completes with 72 bytes, a GRH flag and the sender's number; the data starts at byte 40.
        """
        self.qp(type="UD")
        self.region()
        self.shell.ask("recv q 1 to=A+0:200")
        self.expect(self.exchange(self.datagram(pattern(5, 32))))
        self.expect_completion(f"wr=1 status=SUCCESS length=72 grh=yes source_qp={PEER_QPN}")
        self.expect_memory("A+40:32", seed=5)

    @func_test
    def ip_header_in_front(self) -> None:
        """The contents of the 40 bytes.

        Steps:
            Send a datagram; look at bytes 20 to 39.

        Verify:
            They are the packet's IPv4 header, with the peer's and the card's addresses.
        """
        self.qp(type="UD")
        self.region()
        self.shell.ask("recv q 1 to=A+0:200")
        sent = self.datagram(pattern(5, 32))
        self.exchange(sent)
        held = bytes.fromhex(self.shell.ask("memory A+20:20")["bytes"])
        verify(held[0] == 0x45 and held[12:20] == sent[26:34], f"not the IPv4 header: {held.hex()}")

    @func_test
    def wrong_qkey(self) -> None:
        """Another Q_Key.

        Steps:
            Send with Q_Key 1.

        Verify:
            Silence; it is counted as bad_qkey; the receive is still there.
        """
        self.qp(type="UD")
        self.region()
        self.shell.ask("recv q 1 to=A+0:200")
        self.expect_dropped("bad_qkey", self.datagram(b"abcd", qkey=1))
        self.exchange(self.datagram(b"abcd"))
        self.expect_completion("wr=1 status=SUCCESS length=44")

    @func_test
    def without_a_receive(self) -> None:
        """No receive is posted.

        Steps:
            Send a datagram.

        Verify:
            Silence: it is dropped.
        """
        self.qp(type="UD")
        self.expect(self.exchange(self.datagram(b"abcd")))
        self.expect_no_completion()

    @func_test
    def from_another_host(self) -> None:
        """Datagrams come from anywhere.

        Steps:
            Send from another IP address.

        Verify:
            It completes.
        """
        self.qp(type="UD")
        self.region()
        self.shell.ask("recv q 1 to=A+0:200")
        self.exchange(self.datagram(b"abcd", ends=self.ends.stranger()))
        self.expect_completion("wr=1 status=SUCCESS length=44")

    @func_test
    def the_card_sends(self) -> None:
        """A datagram sent by the card.

        Steps:
            Let the card send 20 bytes.

        Verify:
            A UD_SEND_ONLY with the Q_Key, the sender's number and the bytes.
        """
        self.qp(type="UD")
        self.region(seed=6)
        self.shell.ask("later 100 send q 1 opcode=SEND from=A+0:20")
        got = self.exchange(seconds=0.6)
        self.expect(got, f"UD_SEND_ONLY payload=20")
        verify(got[0].payload == pattern(6, 20) and got[0].qpn == PEER_QPN, f"other bytes or receiver: {got[0]}")
        verify(got[0].header == _QKEY.to_bytes(4, "big") + (0x111).to_bytes(4, "big"), f"DETH {got[0].header.hex()}")
