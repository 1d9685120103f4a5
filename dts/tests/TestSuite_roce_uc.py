"""Unreliable connections."""

from api.capabilities import LinkTopology, requires_link_topology
from framework.test_suite import func_test

from uroce_dts.bench import IOVA, KEY, RoceSuite
from uroce_dts.packets import pattern


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceUc(RoceSuite):
    """IBTA volume 1, 9.8.2: no acknowledgement; packets out of sequence are dropped up to the next FIRST or ONLY."""

    @func_test
    def write(self) -> None:
        """A WRITE.

        Steps:
            Write 64 bytes.

        Verify:
            Silence, and the bytes are there.
        """
        self.qp(type="UC")
        self.region()
        self.expect(self.exchange(self.request("UC_WRITE_ONLY", 100, pattern(3, 64), address=IOVA, rkey=KEY)))
        self.expect_memory("A+0:64", seed=3)

    @func_test
    def send(self) -> None:
        """A SEND of two packets.

        Steps:
            Post a receive; send 1100 bytes.

        Verify:
            The receive completes.
        """
        self.qp(type="UC")
        self.region()
        self.shell.ask("recv q 1 to=A+0:4096")
        data = pattern(5, 1100)
        self.expect(
            self.exchange(
                self.request("UC_SEND_FIRST", 100, data[:1024]), self.request("UC_SEND_LAST", 101, data[1024:])
            )
        )
        self.expect_completion("wr=1 status=SUCCESS length=1100")
        self.expect_memory("A+0:1100", seed=5)

    @func_test
    def a_gap_drops_the_message(self) -> None:
        """A lost MIDDLE.

        Steps:
            Send FIRST and LAST of a message without its MIDDLE, then an ONLY.

        Verify:
            The broken message doesn't complete; the next one does.
        """
        self.qp(type="UC")
        self.region()
        self.shell.ask("recv q 1 to=A+0:4096")
        self.exchange(
            self.request("UC_SEND_FIRST", 100, pattern(5, 1024)), self.request("UC_SEND_LAST", 102, pattern(6, 10))
        )
        self.expect_no_completion()
        self.exchange(self.request("UC_SEND_ONLY", 103, pattern(7, 20)))
        self.expect_completion("status=SUCCESS length=20")
        self.expect_memory("A+0:20", seed=7)

    @func_test
    def bad_key_is_dropped(self) -> None:
        """A WRITE with an unknown key.

        Steps:
            Write with a wrong key, then with the right one.

        Verify:
            Silence; the queue pair stays usable.
        """
        self.qp(type="UC")
        self.region()
        self.expect(self.exchange(self.request("UC_WRITE_ONLY", 100, pattern(3, 8), address=IOVA, rkey=0xDEAD00)))
        self.expect(self.exchange(self.request("UC_WRITE_ONLY", 101, pattern(4, 8), address=IOVA, rkey=KEY)))
        self.expect_memory("A+0:8", seed=4)

    @func_test
    def write_with_immediate(self) -> None:
        """Immediate data.

        Steps:
            Post a receive; write with immediate 77.

        Verify:
            The completion carries it.
        """
        self.qp(type="UC")
        self.region()
        self.shell.ask("recv q 3")
        self.exchange(self.request("UC_WRITE_ONLY_IMM", 100, pattern(3, 8), address=IOVA, rkey=KEY, imm=77))
        self.expect_completion("wr=3 status=SUCCESS opcode=RECV_RDMA_WITH_IMM length=8 imm=77")
