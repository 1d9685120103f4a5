"""Requests that a responder refuses, repeats or drops."""

from api.capabilities import LinkTopology, requires_link_topology
from api.test import verify
from framework.test_suite import func_test

from uroce_dts.bench import IOVA, KEY, RoceSuite
from uroce_dts.packets import pattern


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceRcErrors(RoceSuite):
    """NAKs, duplicates, PSN wrap, RNR: IBTA volume 1, 9.7.4 and 9.7.5."""

    def write(self, psn, payload=b"abcd", **fields):
        return self.request("RC_WRITE_ONLY", psn, payload, **{"address": IOVA, "rkey": KEY, "ack": True, **fields})

    @func_test
    def sequence_error(self) -> None:
        """A gap.

        Steps:
            Skip a PSN.

        Verify:
            One NAK: PSN sequence error, with the expected PSN, and no second one until that packet has arrived. Packets that came
            ahead were buffered, and are acknowledged with it.
        """
        self.qp()
        self.region()
        self.expect(self.exchange(self.write(101)), "NAK:0 psn=100")
        self.expect(self.exchange(self.write(102)))
        self.expect(self.exchange(self.write(104)))
        self.expect(self.exchange(self.write(100)), "NAK:0 psn=103")
        self.expect(self.exchange(self.write(103)), "ACK psn=104 msn=5")

    @func_test
    def duplicate_write(self) -> None:
        """A repeated WRITE.

        Steps:
            Write, let the program change the memory, repeat the WRITE.

        Verify:
            It is acknowledged again, but not executed again.
        """
        self.qp()
        self.region()
        self.expect(self.exchange(self.write(100, pattern(3, 16))), "ACK psn=100 msn=1")
        self.shell.ask("fill A+0:16 seed=9")
        self.expect(self.exchange(self.write(100, pattern(3, 16))), "ACK psn=100 msn=1")
        self.expect_memory("A+0:16", seed=9)

    @func_test
    def duplicate_send(self) -> None:
        """A repeated SEND.

        Steps:
            Send, and repeat it.

        Verify:
            It is acknowledged twice and completes once.
        """
        self.qp()
        self.region()
        self.shell.ask("recv q 1 to=A+0:64")
        self.shell.ask("recv q 2 to=A+64:64")
        for _ in range(2):
            self.expect(self.exchange(self.request("RC_SEND_ONLY", 100, b"abcd", ack=True)), "ACK psn=100 msn=1")
        self.expect_completion("wr=1 status=SUCCESS")
        self.expect_no_completion()

    @func_test
    def duplicate_read(self) -> None:
        """A repeated READ.

        Steps:
            Read, let the program change the memory, repeat the READ.

        Verify:
            It is answered again, with what the memory holds now.
        """
        self.qp()
        self.region()
        read = self.request("RC_READ_REQUEST", 100, address=IOVA, rkey=KEY, length=8)
        verify(self.exchange(read)[0].payload == pattern(0, 8), "other bytes")
        self.shell.ask("fill A+0:8 seed=9")
        verify(self.exchange(read)[0].payload == pattern(9, 8), "other bytes")

    @func_test
    def psn_wraps(self) -> None:
        """PSN wrap.

        Steps:
            Write with PSNs 0xFFFFFE, 0xFFFFFF, 0 and 1.

        Verify:
            All are acknowledged; an earlier one is a duplicate.
        """
        self.qp(psn=0xFFFFFE)
        self.region()
        for i, psn in enumerate((0xFFFFFE, 0xFFFFFF, 0, 1)):
            self.expect(self.exchange(self.write(psn)), f"ACK psn={psn} msn={i + 1}")
        self.expect(self.exchange(self.write(0xFFFFFF)), "ACK psn=1 msn=4")

    @func_test
    def receiver_not_ready(self) -> None:
        """No receive is posted.

        Steps:
            Send without a receive; post one; send again.

        Verify:
            RNR NAK with the queue pair's timer code, then an acknowledgement.
        """
        self.qp(rnr=14)
        self.region()
        self.expect(self.exchange(self.request("RC_SEND_ONLY", 100, b"abcd", ack=True)), "RNR:14 psn=100")
        self.shell.ask("recv q 1 to=A+0:64")
        self.expect(self.exchange(self.request("RC_SEND_ONLY", 100, b"abcd", ack=True)), "ACK psn=100 msn=1")

    @func_test
    def unknown_key(self) -> None:
        """A key that no region has.

        Steps:
            Write with the key 0xDEAD00.

        Verify:
            NAK: remote access error, QP_ACCESS_ERR, ERR.
        """
        self.qp()
        self.expect(self.exchange(self.write(100, rkey=0xDEAD00)), "NAK:2 psn=100")
        self.expect_event("QP_ACCESS_ERR")
        self.expect_state("ERR")

    @func_test
    def beyond_the_region(self) -> None:
        """A range that ends beyond the region.

        Steps:
            Write 8 bytes where 7 are left.

        Verify:
            NAK: remote access error; nothing is written.
        """
        self.qp()
        self.region(length=64)
        self.expect(self.exchange(self.write(100, pattern(1, 8), address=IOVA + 57)), "NAK:2 psn=100")
        self.expect_memory("A+0:64", seed=0)

    @func_test
    def removed_key(self) -> None:
        """The key of a deregistered region.

        Steps:
            Write, deregister the region, write again.

        Verify:
            ACK, then NAK: remote access error.
        """
        self.qp()
        self.region()
        self.expect(self.exchange(self.write(100)), "ACK psn=100")
        self.shell.ask("remove A")
        self.expect(self.exchange(self.write(101)), "NAK:2 psn=101")

    @func_test
    def middle_without_first(self) -> None:
        """Packets out of order within a message.

        Steps:
            Send a WRITE_MIDDLE first of all.

        Verify:
            NAK: invalid request, QP_REQ_ERR, ERR.
        """
        self.qp()
        self.expect(self.exchange(self.request("RC_WRITE_MIDDLE", 100, bytes(1024), ack=True)), "NAK:1 psn=100")
        self.expect_event("QP_REQ_ERR")
        self.expect_state("ERR")

    @func_test
    def first_shorter_than_the_mtu(self) -> None:
        """A FIRST shorter than the path MTU.

        Steps:
            Send a SEND_FIRST of 1000 bytes at MTU 1024.

        Verify:
            NAK: invalid request.
        """
        self.qp()
        self.region()
        self.shell.ask("recv q 1 to=A+0:4096")
        self.expect(self.exchange(self.request("RC_SEND_FIRST", 100, bytes(1000), ack=True)), "NAK:1 psn=100")

    @func_test
    def nothing_is_served_in_err(self) -> None:
        """A queue pair in ERR.

        Steps:
            Move it to ERR; write.

        Verify:
            Silence.
        """
        self.qp()
        self.region()
        self.shell.ask("modify q state=ERR")
        self.expect(self.exchange(self.write(100)))
        self.expect_memory("A+0:16", seed=0)
