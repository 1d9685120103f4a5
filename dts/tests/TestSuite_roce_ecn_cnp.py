"""Congestion: ECN marks and CNPs."""

from api.capabilities import LinkTopology, requires_link_topology
from api.test import verify
from framework.test_suite import func_test

from uroce_dts.bench import IOVA, KEY, RoceSuite
from uroce_dts.packets import pattern


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceEcnCnp(RoceSuite):
    """The signs of congestion, on the wire."""

    @func_test
    def ecn_marked_packets_are_good(self) -> None:
        """ECN.

        Steps:
            Write with ECT(0), ECT(1) and CE in the IP header.

        Verify:
            Each is acknowledged; the one with CE is answered with a congestion notification, too: BECN, in DSCP 48,
            not ECN-capable itself.
        """
        self.qp()
        self.region()
        for i, tos in enumerate((2, 1)):
            self.expect(
                self.exchange(
                    self.request("RC_WRITE_ONLY", 100 + i, pattern(1, 8), address=IOVA, rkey=KEY, ack=True, tos=tos)
                ),
                f"ACK psn={100 + i}",
            )
        got = self.exchange(
            self.request("RC_WRITE_ONLY", 102, pattern(1, 8), address=IOVA, rkey=KEY, ack=True, tos=3)
        )
        self.expect(got, "CNP psn=0 payload=16", "ACK psn=102")
        verify(got[0].becn and got[0].tos == 48 << 2, f"BECN and TOS of {got[0]}")

    @func_test
    def dscp_is_free(self) -> None:
        """Differentiated services.

        Steps:
            Write with each of the 64 code points.

        Verify:
            Each is acknowledged.
        """
        self.qp()
        self.region()
        for dscp in range(64):
            self.expect(
                self.exchange(
                    self.request(
                        "RC_WRITE_ONLY", 100 + dscp, pattern(1, 8), address=IOVA, rkey=KEY, ack=True, tos=dscp << 2
                    )
                ),
                f"ACK psn={100 + dscp}",
            )

    @func_test
    def cnp_is_taken(self) -> None:
        """A congestion notification.

        Steps:
            Send a CNP to the queue pair, then write.

        Verify:
            No answer to the CNP; the WRITE is acknowledged; the queue pair is in RTS.
        """
        self.qp()
        self.region()
        self.expect(self.exchange(self.request("CNP", 0, bytes(16))))
        self.expect(
            self.exchange(self.request("RC_WRITE_ONLY", 100, pattern(1, 8), address=IOVA, rkey=KEY, ack=True)),
            "ACK psn=100",
        )
        self.expect_state("RTS")
