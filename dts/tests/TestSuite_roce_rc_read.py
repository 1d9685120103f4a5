"""RDMA READ from a reliable connection."""

from api.capabilities import LinkTopology, requires_link_topology
from api.test import verify
from framework.test_suite import func_test

from uroce_dts.bench import IOVA, KEY, RoceSuite
from uroce_dts.packets import pattern


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceRcRead(RoceSuite):
    """What IBTA volume 1, 9.7.5.1, requires of a responder, for READ."""

    def read(self, psn, length, offset=0):
        return self.request("RC_READ_REQUEST", psn, address=IOVA + offset, rkey=KEY, length=length)

    @func_test
    def only(self) -> None:
        """A READ answered by one packet.

        Steps:
            Read 100 bytes from the middle of a region.

        Verify:
            One READ_RESPONSE_ONLY with these bytes.
        """
        self.qp()
        self.region(seed=8)
        got = self.exchange(self.read(100, 100, 50))
        self.expect(got, "RC_READ_RESPONSE_ONLY psn=100 ACK msn=1 payload=100")
        verify(got[0].payload == pattern(8, 100, 50), "the data differs")

    @func_test
    def of_four_packets(self) -> None:
        """A READ answered by FIRST, MIDDLE, LAST.

        Steps:
            Read 3500 bytes at MTU 1024.

        Verify:
            Four responses with PSNs from the request's on, and the bytes in order.
        """
        self.qp()
        self.region(seed=8)
        got = self.exchange(self.read(100, 3500))
        self.expect(
            got,
            "RC_READ_RESPONSE_FIRST psn=100 payload=1024",
            "RC_READ_RESPONSE_MIDDLE psn=101 payload=1024",
            "RC_READ_RESPONSE_MIDDLE psn=102 payload=1024",
            "RC_READ_RESPONSE_LAST psn=103 msn=1 payload=428",
        )
        verify(b"".join(answer.payload for answer in got) == pattern(8, 3500), "the data differs")

    @func_test
    def of_nothing(self) -> None:
        """A READ of no bytes.

        Steps:
            Read 0 bytes.

        Verify:
            One READ_RESPONSE_ONLY without payload.
        """
        self.qp()
        self.region()
        self.expect(self.exchange(self.read(100, 0)), "RC_READ_RESPONSE_ONLY psn=100 msn=1 payload=0")

    @func_test
    def odd_lengths(self) -> None:
        """Pad bytes.

        Steps:
            Read 1, 2, 3 and 5 bytes.

        Verify:
            Each response has its bytes and the pad that makes four.
        """
        self.qp()
        self.region(seed=8)
        for i, length in enumerate((1, 2, 3, 5)):
            got = self.exchange(self.read(100 + i, length))
            self.expect(got, f"RC_READ_RESPONSE_ONLY psn={100 + i} payload={length}")
            verify(got[0].payload == pattern(8, length), "the data differs")

    @func_test
    def the_next_request_follows_the_responses(self) -> None:
        """The PSNs of a READ.

        Steps:
            Read 2048 bytes, then write with the PSN after the two responses.

        Verify:
            Both are answered.
        """
        self.qp()
        self.region()
        self.expect(
            self.exchange(self.read(100, 2048)), "RC_READ_RESPONSE_FIRST psn=100", "RC_READ_RESPONSE_LAST psn=101"
        )
        self.expect(
            self.exchange(self.request("RC_WRITE_ONLY", 102, pattern(1, 4), address=IOVA, rkey=KEY, ack=True)),
            "ACK psn=102 msn=2",
        )

    @func_test
    def in_ascending_order(self) -> None:
        """Several READs.

        Steps:
            Send four READs in one burst.

        Verify:
            Four responses in the order of the requests.
        """
        self.qp()
        self.region()
        got = self.exchange(*(self.read(100 + i, 8, 8 * i) for i in range(4)))
        self.expect(got, *(f"RC_READ_RESPONSE_ONLY psn={100 + i} msn={i + 1}" for i in range(4)))
        verify([answer.payload for answer in got] == [pattern(0, 8, 8 * i) for i in range(4)], "the data differs")

    @func_test
    def without_the_right(self) -> None:
        """A region without remote read access.

        Steps:
            Read a region registered with local and remote write access.

        Verify:
            NAK: remote access error; QP_ACCESS_ERR; the queue pair is in ERR.
        """
        self.qp()
        self.region(access="local+write")
        self.expect(self.exchange(self.read(100, 8)), "NAK:2 psn=100")
        self.expect_event("QP_ACCESS_ERR")
        self.expect_state("ERR")
