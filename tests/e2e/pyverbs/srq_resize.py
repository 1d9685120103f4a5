"""A shared receive queue that grows and shrinks while receives wait in it, with pyverbs: `srq_resize.py`. Anything that isn't
as it should be raises."""

import errno
import time

import pyverbs.enums as e
from odp_hazards import WAIT_SECONDS_MAX, Card, End, source
from pyverbs.cq import CQ
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

_BYTES = 64


class Receiver(End):
    """A queue pair that receives from the shared receive queue."""

    def __init__(self, card, srq):  # pylint: disable=super-init-not-called
        self.card = card
        self.cq = CQ(card.context, 64)
        self.qp = QP(card.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, srq=srq, cap=QPCap(max_send_wr=1)),
                     QPAttr(port_num=1))

    def received(self):
        """The wr_id of the next completed receive."""
        until = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < until:
            count, completions = self.cq.poll(1)
            if count:
                assert completions[0].status == e.IBV_WC_SUCCESS, completions[0].status
                return completions[0].wr_id
            time.sleep(0)
        raise TimeoutError("no completion")


class Queue:
    """Counts the receives that it posts."""

    def __init__(self, card, size, memory):
        self.srq = SRQ(card.pd, SrqInitAttr(SrqAttr(max_wr=size, max_sge=1)))
        self._memory = memory
        self._next = 0

    def post(self, count):
        for _ in range(count):
            self.srq.post_recv(RecvWR(wr_id=self._next, num_sge=1, sg=[SGE(self._memory.buf, _BYTES, self._memory.lkey)]))
            self._next += 1

    def resize(self, size):
        self.srq.modify(SrqAttr(max_wr=size), e.IBV_SRQ_MAX_WR)
        assert self.srq.query().max_wr == size, self.srq.query().max_wr

    def expect_refusal(self, code, call, *arguments):
        try:
            call(*arguments)
        except PyverbsRDMAError as refusal:
            assert refusal.error_code == code, refusal
        else:
            raise AssertionError(f"{call.__name__}{arguments} was not refused")


def main():
    card = Card()
    _kept, memory = source(card)
    queue = Queue(card, 4, memory)
    sender, receiver = End(card), Receiver(card, queue.srq)
    sender.connect(receiver.qp.qp_num)
    receiver.connect(sender.qp.qp_num)
    expected = iter(range(1000))

    def send(count):
        for _ in range(count):
            sender.qp.post_send(SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(memory.buf, _BYTES, memory.lkey)]))
            number, wanted = receiver.received(), next(expected)
            assert number == wanted, f"receive {number} completed, not {wanted}"
            assert sender.completion() == e.IBV_WC_SUCCESS

    queue.post(4)
    queue.expect_refusal(errno.ENOMEM, queue.post, 1)
    send(3)
    queue.post(3)  # four wait, around the end of the ring
    queue.resize(16)
    queue.post(12)
    queue.expect_refusal(errno.ENOMEM, queue.post, 1)
    send(4)
    queue.expect_refusal(errno.EINVAL, queue.resize, 8)  # twelve wait
    send(8)
    queue.resize(4)
    queue.expect_refusal(errno.ENOMEM, queue.post, 1)
    send(4)
    queue.post(4)
    send(4)


if __name__ == "__main__":
    main()
