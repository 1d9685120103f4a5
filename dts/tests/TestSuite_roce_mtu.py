"""Path MTUs."""

from api.capabilities import LinkTopology, requires_link_topology
from api.test import verify
from framework.test_suite import func_test

from uroce_dts.bench import IOVA, KEY, RoceSuite
from uroce_dts.packets import pattern


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceMtu(RoceSuite):
    """Each of the five path MTUs, receiving and sending."""

    def full(self, mtu):
        self.qp(mtu=mtu)
        self.region(length=16384)
        data = pattern(3, 2 * mtu + 1)
        got = self.exchange(
            self.request("RC_WRITE_FIRST", 100, data[:mtu], address=IOVA, rkey=KEY, length=len(data)),
            self.request("RC_WRITE_MIDDLE", 101, data[mtu : 2 * mtu]),
            self.request("RC_WRITE_LAST", 102, data[2 * mtu :], ack=True),
        )
        self.expect(got, "ACK psn=102 msn=1")
        self.expect_memory(f"A+0:{len(data)}", seed=3)
        got = self.exchange(self.request("RC_READ_REQUEST", 103, address=IOVA, rkey=KEY, length=len(data)))
        self.expect(
            got,
            f"RC_READ_RESPONSE_FIRST payload={mtu}",
            f"RC_READ_RESPONSE_MIDDLE payload={mtu}",
            "RC_READ_RESPONSE_LAST payload=1",
        )
        verify(b"".join(answer.payload for answer in got) == data, "the data differs")

    @func_test
    def mtu_256(self) -> None:
        """Path MTU 256.

        Steps:
            Write and read 513 bytes.

        Verify:
            Full packets are taken and made, and one of a single byte.
        """
        self.full(256)

    @func_test
    def mtu_512(self) -> None:
        """Path MTU 512.

        Steps:
            Write and read 1025 bytes.

        Verify:
            Full packets are taken and made, and one of a single byte.
        """
        self.full(512)

    @func_test
    def mtu_1024(self) -> None:
        """Path MTU 1024.

        Steps:
            Write and read 2049 bytes.

        Verify:
            Full packets are taken and made, and one of a single byte.
        """
        self.full(1024)

    @func_test
    def mtu_2048(self) -> None:
        """Path MTU 2048.

        Steps:
            Write and read 4097 bytes.

        Verify:
            Full packets are taken and made, and one of a single byte.
        """
        self.full(2048)

    @func_test
    def mtu_4096(self) -> None:
        """Path MTU 4096.

        Steps:
            Write and read 8193 bytes.

        Verify:
            Full packets are taken and made, and one of a single byte.
        """
        self.full(4096)

    @func_test
    def longer_than_the_mtu(self) -> None:
        """A packet larger than the path MTU.

        Steps:
            Send a WRITE_ONLY of 1028 bytes at MTU 1024.

        Verify:
            NAK: invalid request.
        """
        self.qp(mtu=1024)
        self.region()
        self.expect(
            self.exchange(self.request("RC_WRITE_ONLY", 100, bytes(1028), address=IOVA, rkey=KEY, ack=True)),
            "NAK:1 psn=100",
        )
