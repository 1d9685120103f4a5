"""The program of ports.sh. Each row is a kind of port on a wire of tests/e2e, alternating with the kernel's TCP."""

import argparse
import contextlib
import json
import os
import statistics
import sys

from compare_tcp import ROOT, Setting, tcp_gbps, write_bw_gbps  # also finds harness
from harness.namespace import Namespace, NamespacesRefused, veth_pair
from harness.process import ProcessFailed
from harness.programs import run_pair
from harness.udp_wire import Udp
from harness.wires import AfXdp, Loopback, SharedMemory, Shm, Veth

_HOSTS = ("10.77.9.1", "10.77.9.2")
_LAT_COUNT = 5000
_JUMBO = 9000
_ETHERNET = 1500


def _variant(wire, **members):
    return type(wire.__name__, (wire,), members)


class Row:
    """One line of the table. `arguments` are the daemon's."""

    def __init__(self, port, wire, mtu, arguments=()):
        self.port, self.wire, self.mtu, self.arguments = port, wire, mtu, arguments

    def tcp(self, setting, wire, seconds):
        """Over the wire's own interfaces; where there are none, over a veth pair of the same MTU."""
        if isinstance(wire, Veth):
            return tcp_gbps(setting, *wire.namespaces, seconds, wire.server.tcp_host)
        namespaces = [Namespace(name, setting.logs) for name in ("c", "d")]
        for namespace in namespaces:
            setting.addCleanup(namespace.end)
        veth_pair(*namespaces, self.mtu, [f"{host}/24" for host in _HOSTS])
        return tcp_gbps(setting, *namespaces, seconds, _HOSTS[0])


_QDISC = "net_af_packet0,iface=wire,blocksz=65536,framesz=16384,framecnt=1024,qdisc_bypass="
ROWS = {
    "loopback": Row("loopback", Loopback, _JUMBO),
    "loopback-frames": Row("loopback, `--direct off`", Loopback, _JUMBO, ("--direct", "off")),
    "shm": Row("shm", Shm, _JUMBO),
    "vhost": Row("net_vhost0 and net_virtio_user0", SharedMemory, _JUMBO),
    "udp-9000": Row("udp", _variant(Udp, mtu=_JUMBO), _JUMBO),
    "udp-1500": Row("udp", _variant(Udp, mtu=_ETHERNET), _ETHERNET),
    "af_packet-9000": Row("net_af_packet0", _variant(Veth, mtu=_JUMBO), _JUMBO),
    "af_packet-qdisc": Row("net_af_packet0, `qdisc_bypass=0`", _variant(Veth, mtu=_JUMBO, port=_QDISC + "0"), _JUMBO),
    "af_packet-1500": Row("net_af_packet0", _variant(Veth, mtu=_ETHERNET), _ETHERNET),
    "af_xdp-1500": Row("net_af_xdp0", AfXdp, _ETHERNET),
}


def _latency_us(setting, wire):
    """The median of half round trips, by ib_write_lat."""
    out = run_pair(setting, wire, "ib_write_lat", "-F", "-x", 1, "-s", 8, "-n", _LAT_COUNT)
    return float(next(line.split() for line in out.splitlines() if line.split()[:1] == ["8"])[4])


def _measure(row, options):
    gbps, tcp, latency = [], [], []
    for _ in range(options.runs):
        with contextlib.ExitStack() as run:
            setting = Setting(run, options.build)
            wire = row.wire(setting, row.arguments)
            gbps.append(write_bw_gbps(setting, wire, options.seconds))
            latency.append(_latency_us(setting, wire))
            tcp.append(row.tcp(setting, wire, options.seconds))
    medians = [statistics.median(values) for values in (gbps, tcp, latency)]
    return {"port": row.port, "mtu": row.mtu, "write_gbps": round(medians[0], 2), "tcp_gbps": round(medians[1], 2),
            "of_tcp": round(medians[0] / medians[1], 2), "write_lat_us": round(medians[2], 1)}


def _print_table(results):
    print("| port | MTU | `ib_write_bw`, Gb/s | TCP, Gb/s | of TCP | `ib_write_lat`, us |\n|---|---|---|---|---|---|")
    for result in results.values():
        print("| " + " | ".join(str(value) for value in result.values()) + " |")


def main():
    parser = argparse.ArgumentParser(prog="ports.sh", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--runs", type=int, default=3, help="of each row; medians are printed")
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement of bandwidth")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(ROWS)}; all if none is named")
    options = parser.parse_args()
    unknown = [name for name in options.rows if name not in ROWS]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}; rows are {', '.join(ROWS)}")
    results = {}
    for name in options.rows or ROWS:
        try:
            results[name] = _measure(ROWS[name], options)
        except (NamespacesRefused, ProcessFailed) as error:
            print(f"ports.sh: {name}: {error}", file=sys.stderr)
            return 1
    if options.json:
        print(json.dumps(results))
    else:
        _print_table(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
