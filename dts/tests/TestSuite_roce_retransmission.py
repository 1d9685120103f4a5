"""The card as the requester: retransmissions, and when it gives up."""

from api.capabilities import LinkTopology, requires_link_topology
from api.test import verify
from framework.test_suite import func_test

from uroce_dts import packets
from uroce_dts.bench import PEER_QPN, QPN, TIMER_SECONDS, RoceSuite
from uroce_dts.packets import pattern

_TIMEOUT = 16  # 268 ms until the card repeats
_SEND_PSN = 500


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceRetransmission(RoceSuite):
    """Lost requests, lost acknowledgements, lost read responses: IBTA volume 1, 9.7.5 and 9.7.6."""

    def start(self, command, seconds=0.35, **options):
        """Has the card post this while we capture; returns the frames that it sends."""
        self.qp(**{"send_psn": _SEND_PSN, "timeout": _TIMEOUT, **options})
        self.region(seed=6)
        self.shell.ask(f"later 100 {command}")
        return self.exchange(seconds=seconds)

    def answer(self, psn, **fields):
        return packets.acknowledge(self.ends, QPN, psn, **fields)

    @func_test
    def request_and_acknowledgement(self) -> None:
        """A request that is answered.

        Steps:
            Let the card send 20 bytes; acknowledge.

        Verify:
            A SEND_ONLY that asks for an acknowledgement; it completes.
        """
        got = self.start("send q 1 opcode=SEND from=A+0:20", timeout=20)
        self.expect(got, f"RC_SEND_ONLY psn={_SEND_PSN} payload=20")
        verify(
            got[0].ack_requested and got[0].qpn == PEER_QPN and got[0].payload == pattern(6, 20),
            f"another request: {got[0]}",
        )
        self.exchange(self.answer(_SEND_PSN))
        self.expect_completion("wr=1 status=SUCCESS opcode=SEND", side="send")

    @func_test
    def repeats_what_isnt_answered(self) -> None:
        """No answer at all.

        Steps:
            Let the card send; don't answer.

        Verify:
            The same request again, with the same PSN; an acknowledgement completes it.
        """
        got = self.start("send q 1 opcode=SEND from=A+0:20", seconds=1.5)
        verify(len(got) >= 2, f"{len(got)} requests; it doesn't repeat")
        verify(
            all(request.psn == _SEND_PSN and request.payload == pattern(6, 20) for request in got),
            f"others: {list(map(str, got))}",
        )
        self.exchange(self.answer(_SEND_PSN))
        self.expect_completion("wr=1 status=SUCCESS", side="send")

    @func_test
    def gives_up(self) -> None:
        """retry_cnt.

        Steps:
            Let the card send with retry 1 and a short timer; don't answer.

        Verify:
            It completes with RETRY_EXC_ERR; the queue pair is in ERR.
        """
        self.start("send q 1 opcode=SEND from=A+0:20", timeout=8, retry=1)
        self.expect_completion("wr=1 status=RETRY_EXC_ERR", side="send", wait=20000)
        self.expect_state("ERR")

    @func_test
    def sequence_nak_repeats_at_once(self) -> None:
        """A NAK for a lost request.

        Steps:
            Let the card send; answer NAK: PSN sequence error with a long timer.

        Verify:
            The request is retransmitted without a timeout; and repeatedly while it isn't answered.
        """
        self.start("send q 1 opcode=SEND from=A+0:20", timeout=20)
        answers = self.exchange(self.answer(_SEND_PSN, syndrome=0x60), seconds=TIMER_SECONDS)
        self.expect(answers, *[f"RC_SEND_ONLY psn={_SEND_PSN}"] * max(1, len(answers)))

    @func_test
    def rnr_nak_waits(self) -> None:
        """An RNR NAK.

        Steps:
            Let the card send; answer RNR with timer code 1 (10 us).

        Verify:
            The request comes again.
        """
        self.start("send q 1 opcode=SEND from=A+0:20", timeout=20)
        self.expect(
            self.exchange(self.answer(_SEND_PSN, syndrome=0x21), seconds=TIMER_SECONDS), f"RC_SEND_ONLY psn={_SEND_PSN}"
        )
        self.exchange(self.answer(_SEND_PSN))
        self.expect_completion("wr=1 status=SUCCESS", side="send")

    @func_test
    def rnr_retries_are_counted(self) -> None:
        """rnr_retry.

        Steps:
            Let the card send with rnr_retry 0; answer RNR.

        Verify:
            It completes with RNR_RETRY_EXC_ERR.
        """
        self.start("send q 1 opcode=SEND from=A+0:20", timeout=20, rnr_retry=0)
        self.exchange(self.answer(_SEND_PSN, syndrome=0x21))
        self.expect_completion("wr=1 status=RNR_RETRY_EXC_ERR", side="send")

    @func_test
    def later_acknowledgement_covers(self) -> None:
        """A lost acknowledgement.

        Steps:
            Let the card send twice; acknowledge only the second.

        Verify:
            Both complete.
        """
        self.qp(send_psn=_SEND_PSN, timeout=20)
        self.region()
        for wr in (1, 2):
            self.shell.ask(f"later 100 send q {wr} opcode=SEND from=A+0:20")
        self.exchange(seconds=0.4)
        self.exchange(self.answer(_SEND_PSN + 1, msn=2))
        for wr in (1, 2):
            self.expect_completion(f"wr={wr} status=SUCCESS", side="send")

    @func_test
    def lost_read_response(self) -> None:
        """A gap in a READ's responses.

        Steps:
            Let the card read 3000 bytes; send FIRST and LAST, but no MIDDLE.

        Verify:
            It reads again from the gap on; with the rest it completes with all bytes.
        """
        got = self.start("send q 1 opcode=READ from=A+0:3000 address=4096 rkey=77", timeout=20)
        self.expect(got, f"RC_READ_REQUEST psn={_SEND_PSN}")
        data = pattern(9, 3000)
        first = packets.read_response(self.ends, "RC_READ_RESPONSE_FIRST", QPN, _SEND_PSN, data[:1024])
        middle = packets.read_response(self.ends, "RC_READ_RESPONSE_MIDDLE", QPN, _SEND_PSN + 1, data[1024:2048])
        last = packets.read_response(self.ends, "RC_READ_RESPONSE_LAST", QPN, _SEND_PSN + 2, data[2048:])
        got = self.exchange(first, last, seconds=TIMER_SECONDS)
        verify(
            len(got) == 1 and got[0].name == "RC_READ_REQUEST" and got[0].psn == _SEND_PSN + 1,
            f"asked: {list(map(str, got))}",
        )
        verify(int.from_bytes(got[0].header[:8], "big") == 4096 + 1024, "it asks for another address")
        self.exchange(
            packets.read_response(self.ends, "RC_READ_RESPONSE_FIRST", QPN, _SEND_PSN + 1, data[1024:2048]), last
        )
        self.expect_completion("wr=1 status=SUCCESS opcode=RDMA_READ", side="send")
        self.expect_memory("A+0:3000", seed=9)
        verify(middle != first, "two frames with the same PSN")

    @func_test
    def nak_1(self) -> None:
        """NAK code 1.

        Steps:
            Let the card send; answer NAK 1.

        Verify:
            It completes with REM_INV_REQ_ERR; the queue pair is in ERR.
        """
        self.start("send q 1 opcode=SEND from=A+0:20", timeout=20)
        self.exchange(self.answer(_SEND_PSN, syndrome=0x61))
        self.expect_completion("wr=1 status=REM_INV_REQ_ERR", side="send")
        self.expect_state("ERR")

    @func_test
    def nak_2(self) -> None:
        """NAK code 2.

        Steps:
            Let the card send; answer NAK 2.

        Verify:
            It completes with REM_ACCESS_ERR; the queue pair is in ERR.
        """
        self.start("send q 1 opcode=SEND from=A+0:20", timeout=20)
        self.exchange(self.answer(_SEND_PSN, syndrome=0x62))
        self.expect_completion("wr=1 status=REM_ACCESS_ERR", side="send")
        self.expect_state("ERR")

    @func_test
    def nak_3(self) -> None:
        """NAK code 3.

        Steps:
            Let the card send; answer NAK 3.

        Verify:
            It completes with REM_OP_ERR; the queue pair is in ERR.
        """
        self.start("send q 1 opcode=SEND from=A+0:20", timeout=20)
        self.exchange(self.answer(_SEND_PSN, syndrome=0x63))
        self.expect_completion("wr=1 status=REM_OP_ERR", side="send")
        self.expect_state("ERR")
