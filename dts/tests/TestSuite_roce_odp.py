"""On-demand paging, tested from the wire."""

from api.capabilities import LinkTopology, requires_link_topology
from api.test import skip
from framework.test_suite import func_test

from uroce_dts.bench import IOVA, KEY, RoceSuite
from uroce_dts.console import CommandRefused
from uroce_dts.packets import pattern

_ACCESS = "local+read+write+atomic+ondemand"


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceOdp(RoceSuite):
    """A packet may be the first to touch a page."""

    def on_demand(self, length):
        """A region of untouched memory."""
        try:
            self.shell.ask(f"region A length={length} key={KEY} iova={IOVA} access={_ACCESS}")
        except CommandRefused as refusal:
            skip(f"no on-demand paging: {refusal}")
        self.remove_later("A")

    def settle(self, frame, text):
        """Repeats the frame until it is executed: a page that isn't resident may cause an RNR NAK."""
        got = []
        for _ in range(50):
            got += [answer for answer in self.exchange(frame) if not answer.syndrome_name().startswith("RNR")]
            if got:
                break
        self.expect(got[:1], text)

    @func_test
    def write_into_untouched_memory(self) -> None:
        """A WRITE with a page fault.

        Steps:
            Register 64 MiB on demand; write into the middle.

        Verify:
            It is acknowledged, and the bytes are there.
        """
        self.qp()
        self.on_demand(64 << 20)
        self.settle(
            self.request("RC_WRITE_ONLY", 100, pattern(3, 100), address=IOVA + 33554432, rkey=KEY, ack=True),
            "ACK psn=100",
        )
        self.expect_memory("A+33554432:100", seed=3)

    @func_test
    def read_from_untouched_memory(self) -> None:
        """A READ with a page fault.

        Steps:
            Read 8 bytes of untouched memory.

        Verify:
            Zeroes.
        """
        self.qp()
        self.on_demand(1 << 20)
        self.settle(
            self.request("RC_READ_REQUEST", 100, address=IOVA + 500000, rkey=KEY, length=8),
            "RC_READ_RESPONSE_ONLY psn=100 payload=8",
        )

    @func_test
    def two_pages(self) -> None:
        """A WRITE across a page boundary.

        Steps:
            Write 100 bytes, 50 of them on the next page.

        Verify:
            They are there.
        """
        self.qp()
        self.on_demand(1 << 20)
        self.settle(
            self.request("RC_WRITE_ONLY", 100, pattern(3, 100), address=IOVA + 8192 - 50, rkey=KEY, ack=True),
            "ACK psn=100",
        )
        self.expect_memory("A+8142:100", seed=3)
