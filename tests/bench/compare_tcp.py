"""The program of compare_tcp.sh. Uses the daemons, namespaces and program pairs of tests/e2e."""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

from harness.case import Tree  # noqa: E402  (needs the path above)
from harness.namespace import Namespace, NamespacesRefused, veth_pair  # noqa: E402
from harness.process import Process, ProcessFailed, wait_until  # noqa: E402
from harness.programs import listens, run_pair  # noqa: E402
from harness.udp_wire import NOBODY, Udp  # noqa: E402
from harness.wires import Shm  # noqa: E402

_TCP_MTU = 9000
_UDP_MTUS = (1500, 9000)
_TCP_ADDRESSES = ("10.77.9.1", "10.77.9.2")
_TCP_PORT = 5201  # in a namespace of its own
_SIZE = 65536


class Setting:
    """The parts of a test case that the harness needs: folders, the tree, clean-up."""

    def __init__(self, stack, build):
        self.tree = Tree(build)
        self.folder = tempfile.mkdtemp(prefix="uroce-bench-")
        stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.logs = self.folder
        self.addCleanup = stack.callback
        self._number = 0

    def skipTest(self, reason):
        raise NamespacesRefused(reason)

    def next_number(self):
        self._number += 1
        return f"{self._number:02}"


def write_bw_gbps(setting, wire, seconds):
    out = run_pair(setting, wire, "ib_write_bw", "-F", "-x", 1, "-s", _SIZE, "-D", seconds, "-f", 0,
                   "--report_gbits", seconds_max=seconds + 60)
    row = next(line.split() for line in out.splitlines() if line.split()[:1] == [str(_SIZE)])
    return float(row[3])


def tcp_gbps(setting, server, client, seconds, address=_TCP_ADDRESSES[0], user=(), options=()):
    number = setting.next_number()
    listener = Process([*server.prefix(), *user, "iperf3", "-s", "-1", "-p", _TCP_PORT], f"{number}-iperf3-server",
                       setting.logs)
    setting.addCleanup(listener.end)
    wait_until(lambda: listener.ended() or listens(server.pid, _TCP_PORT), 10, "iperf3 listening")
    sender = Process([*client.prefix(), *user, "iperf3", "-c", address, "-p", _TCP_PORT, "-t", seconds, "-J",
                      *options],
                     f"{number}-iperf3-client", setting.logs)
    setting.addCleanup(sender.end)
    report = json.loads(sender.expect_success(seconds + 60))
    listener.expect_success(10)
    return report["end"]["sum_received"]["bits_per_second"] / 1e9


def _shared_memory(options):
    """Alternates both, so that a slow minute of the machine affects both alike."""
    with contextlib.ExitStack() as stack:
        setting = Setting(stack, options.build)
        namespaces = [Namespace(name, setting.logs) for name in ("a", "b")]
        for namespace in namespaces:
            stack.callback(namespace.end)
        veth_pair(*namespaces, _TCP_MTU, [f"{address}/24" for address in _TCP_ADDRESSES])
        ours, tcp = [], []
        for _ in range(options.runs):
            tcp.append(tcp_gbps(setting, *namespaces, options.seconds))
            with contextlib.ExitStack() as run:  # daemons are gone while TCP runs
                setting.addCleanup = run.callback
                ours.append(write_bw_gbps(setting, Shm(setting), options.seconds))
            setting.addCleanup = stack.callback
        return ours, tcp


def _over_udp_ports(options, mtu):
    """As above, but both over the same veth pair, and all programs and daemons run as an ordinary user."""
    ours, tcp = [], []
    for _ in range(options.runs):
        with contextlib.ExitStack() as run:
            setting = Setting(run, options.build)
            wire = type("Wire", (Udp,), {"mtu": mtu})(setting)
            ours.append(write_bw_gbps(setting, wire, options.seconds))
            wire.stop()
            tcp.append(tcp_gbps(setting, *wire.namespaces, options.seconds, wire.server.address, NOBODY))
    return ours, tcp


def ratio_of_turns(ours, theirs):
    """Median of the ratios of the turns: a temporary slowdown of the machine affects both runs of a turn."""
    return statistics.median(mine / peer for mine, peer in zip(ours, theirs))


def _print_runs(what, values):
    print(f"  {what:54} {statistics.median(values):6.2f} Gb/s  ({', '.join(f'{value:.2f}' for value in values)})")


def _report(options, ours_are, ours, mtu, tcp):
    """Returns both medians, and the median of the turns' ratios."""
    result = statistics.median(ours), statistics.median(tcp), ratio_of_turns(ours, tcp)
    if not options.json:
        print(f"median of {options.runs} runs of {options.seconds} s each, by turns (all runs):")
        _print_runs(f"ib_write_bw, 64 KiB, {ours_are}", ours)
        _print_runs(f"iperf3, TCP over veth, MTU {mtu}", tcp)
        print(f"  ratio, median of the turns: {result[2]:.2f}")
    return result


def _compare(options):
    if options.wire == "memory":
        names = ("ib_write_bw_gbps", "iperf3_gbps", "ratio")
        ours, tcp = _shared_memory(options)
        return dict(zip(names, _report(options, "two daemons joined by shm ports", ours, _TCP_MTU, tcp)))
    result = {}
    for mtu in _UDP_MTUS:
        names = (f"ib_write_bw_gbps_{mtu}", f"iperf3_gbps_{mtu}", f"ratio_{mtu}")
        ours, tcp = _over_udp_ports(options, mtu)
        result.update(zip(names, _report(options, f"udp ports over veth, MTU {mtu}", ours, mtu, tcp)))
    return result


def main():
    parser = argparse.ArgumentParser(prog="compare_tcp.sh", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--wire", choices=("memory", "udp"), default="memory",
                        help="memory: shm ports of two daemons; udp: udp ports of an ordinary user, on TCP's veth")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    options = parser.parse_args()
    try:
        result = _compare(options)
    except (NamespacesRefused, ProcessFailed) as error:
        print(f"compare_tcp.sh: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({key: round(value, 3) for key, value in result.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
