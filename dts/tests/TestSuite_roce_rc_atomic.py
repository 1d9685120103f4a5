"""Atomics on a reliable connection."""

from api.capabilities import LinkTopology, requires_link_topology
from api.test import verify
from framework.test_suite import func_test

from uroce_dts.bench import IOVA, KEY, RoceSuite


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceRcAtomic(RoceSuite):
    """What IBTA volume 1, 9.4.5, requires of a responder."""

    def fetch_add(self, psn, add, offset=0):
        return self.request("RC_FETCH_ADD", psn, address=IOVA + offset, rkey=KEY, add=add)

    def compare_swap(self, psn, compare, swap, offset=0):
        return self.request("RC_COMPARE_SWAP", psn, address=IOVA + offset, rkey=KEY, compare=compare, swap=swap)

    def value(self, value, offset=0):
        self.shell.ask(f"fill A+{offset}:8 hex={value.to_bytes(8, 'little').hex()}")

    @func_test
    def adds(self) -> None:
        """FETCH_ADD.

        Steps:
            Add 5 to 37.

        Verify:
            The answer has 37; the memory has 42.
        """
        self.qp()
        self.region()
        self.value(37)
        got = self.exchange(self.fetch_add(100, 5))
        self.expect(got, "RC_ATOMIC_ACKNOWLEDGE psn=100 ACK msn=1")
        verify(got[0].original == 37, f"the original is {got[0].original}")
        self.expect_memory("A+0:8", value=42)

    @func_test
    def add_wraps(self) -> None:
        """FETCH_ADD with 64-bit overflow.

        Steps:
            Add 2 to 2^64 - 1.

        Verify:
            The memory has 1.
        """
        self.qp()
        self.region()
        self.value(2**64 - 1)
        verify(self.exchange(self.fetch_add(100, 2))[0].original == 2**64 - 1, "another original")
        self.expect_memory("A+0:8", value=1)

    @func_test
    def swaps_what_is_equal(self) -> None:
        """COMPARE_SWAP with equal values.

        Steps:
            Swap 7 for 9 where 7 is.

        Verify:
            The answer has 7; the memory has 9.
        """
        self.qp()
        self.region()
        self.value(7)
        verify(self.exchange(self.compare_swap(100, 7, 9))[0].original == 7, "another original")
        self.expect_memory("A+0:8", value=9)

    @func_test
    def leaves_what_differs(self) -> None:
        """COMPARE_SWAP with different values.

        Steps:
            Swap 8 for 9 where 7 is.

        Verify:
            The answer has 7; the memory still has 7.
        """
        self.qp()
        self.region()
        self.value(7)
        verify(self.exchange(self.compare_swap(100, 8, 9))[0].original == 7, "another original")
        self.expect_memory("A+0:8", value=7)

    @func_test
    def duplicates_are_answered_and_not_done(self) -> None:
        """A repeated atomic.

        Steps:
            Add 5, and send the same request twice more.

        Verify:
            Each answer has the first original; it was added once.
        """
        self.qp()
        self.region()
        self.value(1)
        for _ in range(3):
            got = self.exchange(self.fetch_add(100, 5))
            self.expect(got, "RC_ATOMIC_ACKNOWLEDGE psn=100")
            verify(got[0].original == 1, f"the original is {got[0].original}")
        self.expect_memory("A+0:8", value=6)

    @func_test
    def misaligned(self) -> None:
        """An address that isn't a multiple of eight.

        Steps:
            Add at offset 4.

        Verify:
            NAK: invalid request; nothing is added.
        """
        self.qp()
        self.region()
        self.expect(self.exchange(self.fetch_add(100, 5, 4)), "NAK:1 psn=100")
        self.expect_memory("A+0:16", seed=0)

    @func_test
    def without_the_right(self) -> None:
        """A region without remote atomic access.

        Steps:
            Add in a region with remote read and write access only.

        Verify:
            NAK: remote access error; nothing is added.
        """
        self.qp()
        self.region(access="local+read+write")
        self.expect(self.exchange(self.fetch_add(100, 5)), "NAK:2 psn=100")
        self.expect_memory("A+0:8", seed=0)
