"""SEND to a reliable connection."""

from api.capabilities import LinkTopology, requires_link_topology
from framework.test_suite import func_test

from uroce_dts.bench import RoceSuite
from uroce_dts.packets import pattern


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceRcSend(RoceSuite):
    """What IBTA volume 1, 9.7.4 and 9.7.5, requires of a responder, for SEND."""

    @func_test
    def only(self) -> None:
        """A SEND of one packet.

        Steps:
            Post a receive; send a SEND_ONLY of 64 bytes.

        Verify:
            It is acknowledged, and completes the receive with its bytes.
        """
        self.qp()
        self.region()
        self.shell.ask("recv q 1 to=A+0:256")
        self.expect(self.exchange(self.request("RC_SEND_ONLY", 100, pattern(4, 64), ack=True)), "ACK psn=100 msn=1")
        self.expect_completion("wr=1 status=SUCCESS opcode=RECV length=64")
        self.expect_memory("A+0:64", seed=4)
        self.expect_memory("A+64:192", seed=0, skip=64)

    @func_test
    def of_three_packets(self) -> None:
        """A SEND of a FIRST, a MIDDLE and a LAST.

        Steps:
            Send 2348 bytes in three packets.

        Verify:
            One acknowledgement for the last; the receive has all bytes.
        """
        self.qp()
        self.region()
        self.shell.ask("recv q 1 to=A+0:4096")
        data = pattern(6, 2348)
        got = self.exchange(
            self.request("RC_SEND_FIRST", 100, data[:1024]),
            self.request("RC_SEND_MIDDLE", 101, data[1024:2048]),
            self.request("RC_SEND_LAST", 102, data[2048:], ack=True),
        )
        self.expect(got, "ACK psn=102 msn=1")
        self.expect_completion("wr=1 status=SUCCESS length=2348")
        self.expect_memory("A+0:2348", seed=6)

    @func_test
    def with_immediate(self) -> None:
        """Immediate data.

        Steps:
            Send a SEND_ONLY with immediate 0xCAFEBABE.

        Verify:
            The completion carries it.
        """
        self.qp()
        self.region()
        self.shell.ask("recv q 9 to=A+0:64")
        self.expect(
            self.exchange(self.request("RC_SEND_ONLY_IMM", 100, pattern(4, 8), imm=0xCAFEBABE, ack=True)), "ACK"
        )
        self.expect_completion(f"wr=9 length=8 imm={0xCAFEBABE}")

    @func_test
    def scattered(self) -> None:
        """A receive with several SGEs.

        Steps:
            Post a receive of 10, 20 and 34 bytes; send 64.

        Verify:
            The bytes are scattered to the SGEs in order.
        """
        self.qp()
        self.region()
        self.shell.ask("recv q 1 to=A+1000:10 to=A+0:20 to=A+500:34")
        self.expect(self.exchange(self.request("RC_SEND_ONLY", 100, pattern(4, 64), ack=True)), "ACK")
        self.expect_memory("A+1000:10", seed=4)
        self.expect_memory("A+0:20", seed=4, skip=10)
        self.expect_memory("A+500:34", seed=4, skip=30)

    @func_test
    def of_nothing(self) -> None:
        """A SEND without bytes.

        Steps:
            Post a receive without SGEs; send a SEND_ONLY without payload.

        Verify:
            It completes with length 0.
        """
        self.qp()
        self.shell.ask("recv q 1")
        self.expect(self.exchange(self.request("RC_SEND_ONLY", 100, ack=True)), "ACK psn=100 msn=1")
        self.expect_completion("wr=1 status=SUCCESS length=0")

    @func_test
    def receives_are_taken_in_order(self) -> None:
        """Several SENDs.

        Steps:
            Post three receives, send three SENDs in one burst.

        Verify:
            The completions come in the order of posting.
        """
        self.qp()
        self.region()
        for i in range(3):
            self.shell.ask(f"recv q {i} to=A+{100 * i}:100")
        self.exchange(*(self.request("RC_SEND_ONLY", 100 + i, pattern(i, 10 + i), ack=i == 2) for i in range(3)))
        for i in range(3):
            self.expect_completion(f"wr={i} status=SUCCESS length={10 + i}")
            self.expect_memory(f"A+{100 * i}:{10 + i}", seed=i)

    @func_test
    def longer_than_the_receive(self) -> None:
        """A message that doesn't fit.

        Steps:
            Post a receive of 16 bytes; send 17.

        Verify:
            NAK: invalid request; the receive completes with a length error; the queue pair is in ERR.
        """
        self.qp()
        self.region()
        self.shell.ask("recv q 1 to=A+0:16")
        self.expect(self.exchange(self.request("RC_SEND_ONLY", 100, pattern(4, 17), ack=True)), "NAK:1 psn=100")
        self.expect_completion("wr=1 status=LOC_LEN_ERR")
        self.expect_state("ERR")
