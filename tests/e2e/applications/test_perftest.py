"""perftest over all sizes (-a: 2 B to 8 MiB, at least 1 MiB was asked for), and its other modes.

Few iterations: two programs and two daemons share what may be two cores. perftest doesn't check data; integrity does.
"""

from harness.case import E2eCase, on_each_wire
from harness.programs import run_pair

_BANDWIDTH = ("-F", "-x", 1, "-n", 20)
_LATENCY = ("-F", "-x", 1, "-n", 10)
_IPV4_GROUP = "0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:3"
_NO_HOOKS = {"UROCE_HOOKS": "none"}
_ATOMICS = ("CMP_AND_SWAP", "FETCH_AND_ADD")


def rows(out):
    """The table's rows as lists of numbers: size, iterations, figures."""
    found = []
    for line in out.splitlines():
        words = line.split()
        try:
            found.append([float(word) for word in words])
        except ValueError:
            continue
    return [row for row in found if len(row) >= 4]


class PerftestCase(E2eCase):
    def run_tool(self, wire, tool, *arguments, **options):
        table = rows(run_pair(self, wire, tool, *arguments, **options))
        self.assertTrue(table, f"{tool} printed no row")
        return table

    def expect_all_sizes(self, table):
        self.assertEqual([int(row[0]) for row in table], [2 << power for power in range(23)])


@on_each_wire
class Bandwidth(PerftestCase):
    def check_send_all(self, wire):
        self.expect_all_sizes(self.run_tool(wire, "ib_send_bw", *_BANDWIDTH, "-a"))

    def check_write_all(self, wire):
        self.expect_all_sizes(self.run_tool(wire, "ib_write_bw", *_BANDWIDTH, "-a"))

    def check_read_all(self, wire):
        self.expect_all_sizes(self.run_tool(wire, "ib_read_bw", *_BANDWIDTH, "-a"))

    def check_whole_mtu(self, wire):
        """It halves the path MTU of cards that it takes for a ConnectX-3."""
        self.assertRegex(run_pair(self, wire, "ib_write_bw", *_BANDWIDTH), r"Mtu\s*: 4096\[B\]")

    def check_eight_qps(self, wire):
        for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
            self.run_tool(wire, tool, *_BANDWIDTH, "-q", 8)

    def check_both_directions(self, wire):
        for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
            self.run_tool(wire, tool, *_BANDWIDTH, "-b")

    def check_events(self, wire):
        for tool in ("ib_send_bw", "ib_read_bw"):  # ib_write_bw has no -e
            self.run_tool(wire, tool, *_BANDWIDTH, "-e")

    def check_inline(self, wire):
        for tool in ("ib_send_bw", "ib_write_bw"):
            self.run_tool(wire, tool, *_BANDWIDTH, "-I", 64, "-s", 64)

    def check_unreliable(self, wire):
        for tool in ("ib_send_bw", "ib_write_bw"):
            self.run_tool(wire, tool, *_BANDWIDTH, "-c", "UC")
        self.run_tool(wire, "ib_send_bw", *_BANDWIDTH, "-c", "UD")
        self.run_tool(wire, "ib_send_bw", *_BANDWIDTH, "-c", "UD", "-q", 4)

    def check_multicast(self, wire):
        bandwidth = ("-F", "-n", 20, "-c", "UD", "-g")
        self.run_tool(wire, "ib_send_bw", *bandwidth, "-x", 0)  # perftest's own group is IPv6
        self.run_tool(wire, "ib_send_bw", *bandwidth, "-x", 1, "-M", _IPV4_GROUP)

    def check_atomics(self, wire):
        for kind in _ATOMICS:
            self.run_tool(wire, "ib_atomic_bw", *_BANDWIDTH, "-A", kind)
        self.run_tool(wire, "ib_atomic_bw", *_BANDWIDTH, "-q", 8)
        self.run_tool(wire, "ib_atomic_bw", *_BANDWIDTH, "-b")
        self.run_tool(wire, "ib_atomic_bw", *_BANDWIDTH, "-e")


class WithoutHooks(PerftestCase):
    """UROCE_HOOKS=none: perftest's buffers are private memory, so the daemon accesses them through /proc/PID/mem."""

    def test_bandwidth_and_latency(self):
        wire = self.wire("loopback")
        self.expect_all_sizes(self.run_tool(wire, "ib_write_bw", "-F", "-x", 1, "-n", 5, "-a", environment=_NO_HOOKS))
        for tool in ("ib_send", "ib_write", "ib_read"):
            self.run_tool(wire, f"{tool}_bw", *_BANDWIDTH, "-s", 1 << 20, environment=_NO_HOOKS)
            self.run_tool(wire, f"{tool}_lat", *_LATENCY, "-s", 4096, environment=_NO_HOOKS)
        for kind in _ATOMICS:
            self.run_tool(wire, "ib_atomic_bw", *_BANDWIDTH, "-A", kind, environment=_NO_HOOKS)
        self.run_tool(wire, "ib_send_bw", *_BANDWIDTH, "-c", "UD", environment=_NO_HOOKS)


class LatencyOfAllSizes(PerftestCase):
    """On one wire: for each row perftest keeps a processor busy for a second, to learn its clock."""

    def test_all_sizes_veth(self):
        wire = self.wire("veth")
        for tool in ("ib_send_lat", "ib_write_lat", "ib_read_lat"):
            self.expect_all_sizes(self.run_tool(wire, tool, *_LATENCY, "-a"))


@on_each_wire
class Latency(PerftestCase):
    def check_some_sizes(self, wire):
        for tool in ("ib_send_lat", "ib_write_lat", "ib_read_lat"):
            for size in (2, 8 << 20):
                self.run_tool(wire, tool, *_LATENCY, "-s", size)

    def check_events(self, wire):
        for tool in ("ib_send_lat", "ib_read_lat", "ib_atomic_lat"):
            self.run_tool(wire, tool, *_LATENCY, "-e")

    def check_inline(self, wire):
        for tool in ("ib_send_lat", "ib_write_lat"):
            self.run_tool(wire, tool, *_LATENCY, "-I", 64, "-s", 64)

    def check_unreliable(self, wire):
        self.run_tool(wire, "ib_send_lat", *_LATENCY, "-c", "UD")
        for tool in ("ib_send_lat", "ib_write_lat"):
            self.run_tool(wire, tool, *_LATENCY, "-c", "UC")

    def check_atomics(self, wire):
        for kind in _ATOMICS:
            self.run_tool(wire, "ib_atomic_lat", *_LATENCY, "-A", kind)


class NewerCard(PerftestCase):
    """With a ConnectX-5's part id perftest posts by ibv_wr_*, with the default one by ibv_post_send."""

    def test_bandwidth_and_latency(self):
        wire = self.wire("loopback", "--vendor-part-id", 4119)
        for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
            self.run_tool(wire, tool, *_BANDWIDTH)
        for tool in ("ib_send_lat", "ib_write_lat", "ib_read_lat", "ib_atomic_lat"):
            self.run_tool(wire, tool, *_LATENCY)
        self.run_tool(wire, "ib_send_bw", *_BANDWIDTH, "-c", "UD")
