"""RDMA WRITE to a reliable connection."""

from api.capabilities import LinkTopology, requires_link_topology
from framework.test_suite import func_test

from uroce_dts.bench import IOVA, KEY, RoceSuite
from uroce_dts.packets import pattern


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceRcWrite(RoceSuite):
    """What IBTA volume 1, 9.7.4 and 9.7.5, requires of a responder, for WRITE."""

    def write(self, psn, payload, **fields):
        return self.request("RC_WRITE_ONLY", psn, payload, **{"address": IOVA, "rkey": KEY, "ack": True, **fields})

    @func_test
    def only(self) -> None:
        """A WRITE of one packet.

        Steps:
            Send a WRITE_ONLY of 64 bytes into the middle of a region.

        Verify:
            It is acknowledged with MSN 1, the bytes are there, those around are not touched.
        """
        self.qp()
        self.region()
        self.expect(
            self.exchange(self.write(100, pattern(5, 64), address=IOVA + 16)), "RC_ACKNOWLEDGE psn=100 ACK msn=1"
        )
        self.expect_memory("A+0:16", seed=0)
        self.expect_memory("A+16:64", seed=5)
        self.expect_memory("A+80:4016", seed=0, skip=80)

    @func_test
    def odd_lengths(self) -> None:
        """Pad bytes.

        Steps:
            Send WRITEs of 1, 2, 3, 4 and 5 bytes, padded to four.

        Verify:
            Each is acknowledged, and writes just its bytes.
        """
        self.qp()
        self.region()
        for i, length in enumerate((1, 2, 3, 4, 5)):
            self.expect(
                self.exchange(self.write(100 + i, pattern(9, length), address=IOVA + 16 * i)),
                f"psn={100 + i} ACK msn={i + 1}",
            )
            self.expect_memory(f"A+{16 * i}:{length}", seed=9)
            self.expect_memory(f"A+{16 * i + length}:{16 - length}", seed=0, skip=16 * i + length)
