"""The program of compare_lossy.sh."""

import argparse
import contextlib
import json
import os
import statistics
import sys

from compare_tcp import ROOT, Setting, ratio_of_turns, tcp_gbps, write_bw_gbps

from harness.lossy_wire import LossyUdp  # compare_tcp has set the path
from harness.namespace import NamespacesRefused
from harness.process import ProcessFailed

_ALGORITHMS = ("bbr", "cubic")  # the closer one next to ib_write_bw
_AVAILABLE = "/proc/sys/net/ipv4/tcp_available_congestion_control"


def _algorithms():
    """The TCP congestion controls that this kernel has; prints which are missing."""
    with open(_AVAILABLE, encoding="ascii") as names:
        available = names.read().split()
    missing = [name for name in _ALGORITHMS if name not in available]
    for name in missing:
        print(f"compare_lossy.sh: of_{name} is null: this kernel has no tcp_{name} ({_AVAILABLE} says: "
              f"{' '.join(available)}; try modprobe tcp_{name})", file=sys.stderr)
    return [name for name in _ALGORITHMS if name not in missing]


def _run_all(options, algorithms):
    """Alternates the measurements, so that a slow minute of the machine affects all alike. Returns Gb/s of each run by name, and the
    router's counters."""
    wire_type = type("Wire", (LossyUdp,), {"mtu": options.mtu, "loss": options.loss / 100})
    gbps = {name: [] for name in ("ib_write_bw", *algorithms)}
    seen = [0, 0]
    for _ in range(options.runs):
        with contextlib.ExitStack() as run:
            setting = Setting(run, options.build)
            wire = wire_type(setting)
            gbps["ib_write_bw"].append(write_bw_gbps(setting, wire, options.seconds))
            seen = [before + more for before, more in zip(seen, wire.packets())]
            wire.stop()
            for name in algorithms:
                gbps[name].append(tcp_gbps(setting, *wire.namespaces, options.seconds, wire.server.address,
                                           options=("-C", name)))
    return gbps, seen


def _report(options, gbps, seen):
    medians = {name: statistics.median(values) for name, values in gbps.items()}
    result = {f"{name}_gbps": round(median, 3) for name, median in medians.items()}
    for name in _ALGORITHMS:
        result[f"of_{name}"] = round(ratio_of_turns(gbps["ib_write_bw"], gbps[name]), 3) if name in gbps else None
    result["lost_percent"] = round(100 * seen[1] / max(seen[0], 1), 3)
    if options.json:
        print(json.dumps(result))
        return
    print(f"median of {options.runs} runs of {options.seconds} s each, by turns (all runs); {options.loss} % lost, MTU {options.mtu}:")
    for name, values in gbps.items():
        ratio = f"; ib_write_bw has {result[f'of_{name}']:.2f} times as much (median of the turns)" if f"of_{name}" in result else ""
        print(f"  {name:12} {medians[name]:6.2f} Gb/s  ({', '.join(f'{value:.2f}' for value in values)}){ratio}")
    print(f"  the router lost {result['lost_percent']} % of ib_write_bw's packets")


def main():
    parser = argparse.ArgumentParser(prog="compare_lossy.sh", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--loss", type=float, default=1.0, help="percent of all packets, in each direction")
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--seconds", type=int, default=2, help="of each measurement")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    options = parser.parse_args()
    try:
        _report(options, *_run_all(options, _algorithms()))
    except (NamespacesRefused, ProcessFailed) as error:
        print(f"compare_lossy.sh: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
