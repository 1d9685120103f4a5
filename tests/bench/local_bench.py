"""The program of local_bench.sh. Transfers between programs of one machine by a loopback daemon, by UCX's shared memory and by TCP over
lo. Figures are in GB/s, us and millions of messages a second."""

import argparse
import contextlib
import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from compare_tcp import ROOT, Setting  # noqa: E402  (needs the path above)
from harness.process import Process, ProcessFailed, wait_until  # noqa: E402
from harness.programs import listens, run_pair  # noqa: E402
from harness.wires import Loopback, free_tcp_port  # noqa: E402

_LARGE, _SMALL = 65536, 8
_LATENCY_MESSAGES, _SENDS = 5000, 200000
_UCX_COUNTS = {"put_bw": 50000, "put_lat": 50000, "am_bw": 500000}
_HOST = "127.0.0.1"
_SECONDS_MAX = 120


def _row(out, size):
    """The numbers behind a message size in what perftest's programs print."""
    return [float(word) for word in next(line.split() for line in out.splitlines() if line.split()[:1] == [str(size)])]


class Measures:
    """Each method makes one measurement and returns its figures by name."""

    def __init__(self, setting, wire, options):
        self._setting, self._wire = setting, wire
        self._seconds, self._build = options.seconds, options.build

    def _perftest(self, program, size, *arguments):
        return _row(run_pair(self._setting, self._wire, program, "-F", "-s", size, *arguments,
                             seconds_max=self._seconds + _SECONDS_MAX), size)

    def uroce_bw(self):
        gbps = self._perftest("ib_write_bw", _LARGE, "-D", self._seconds, "-f", 0, "--report_gbits")[3]
        return {"write_64k_gb_per_s": gbps / 8}

    def uroce_latency(self):
        row = self._perftest("ib_write_lat", _SMALL, "-n", _LATENCY_MESSAGES)
        return {"write_8b_us": row[4], "write_8b_mean_us": row[5], "lat_mean_of_median": row[5] / row[4]}

    def uroce_sends(self):
        return {"send_8b_m_per_s": self._perftest("ib_send_bw", _SMALL, "-n", _SENDS)[4]}

    def _pair(self, server, client, port):
        number = self._setting.next_number()
        serving = Process(server, f"{number}-{server[0]}-server", self._setting.logs)
        self._setting.addCleanup(serving.end)
        wait_until(lambda: serving.ended() or listens(0, port), 10, f"{server[0]} listening")
        asking = Process(client, f"{number}-{client[0]}-client", self._setting.logs)
        self._setting.addCleanup(asking.end)
        out = asking.expect_success(self._seconds + _SECONDS_MAX)
        serving.expect_success(10)
        return out

    def _ucx(self, test, size):
        """The last line: messages, then median, average and overall of latency, average and overall of MB/s and of messages a second."""
        port = free_tcp_port()
        command = ["ucx_perftest", "-d", "memory", "-x", "posix", "-t", test, "-s", size, "-n", _UCX_COUNTS[test], "-f", "-p", port]
        return [float(word) for word in self._pair(command, [*command, _HOST], port).splitlines()[-1].split()]

    def ucx_bw(self):
        return {"posix_64k_gb_per_s": self._ucx("put_bw", _LARGE)[5] * 1.048576 / 1000}

    def ucx_latency(self):
        row = self._ucx("put_lat", _SMALL)
        return {"posix_8b_us": row[1], "posix_8b_mean_us": row[2]}

    def ucx_sends(self):
        return {"posix_8b_m_per_s": self._ucx("am_bw", _SMALL)[7] / 1e6}

    def relayed_latency(self):
        """Latency between programs with a third process in between that only copies, and (stored) without one."""
        bench = Process([os.path.join(self._build, "tests", "bench", "relay_bench"), "--json"],
                        f"{self._setting.next_number()}-relay_bench", self._setting.logs)
        self._setting.addCleanup(bench.end)
        figures = json.loads(bench.expect_success(_SECONDS_MAX))
        return {name: figures[name] for name in ("stored_8b_us", "relayed_8b_us", "relayed_8b_mean_us")}

    def tcp_bw(self):
        port = free_tcp_port()
        out = self._pair(["iperf3", "-s", "-1", "-p", port], ["iperf3", "-c", _HOST, "-p", port, "-t", self._seconds, "-J"], port)
        return {"tcp_gb_per_s": json.loads(out)["end"]["sum_received"]["bits_per_second"] / 8e9}


def _measure(options):
    """Alternates all, so that a slow minute of the machine affects all alike."""
    runs = []
    for _ in range(options.runs):
        figures = {}
        with contextlib.ExitStack() as stack:  # the daemon is gone while others run
            setting = Setting(stack, options.build)
            measures = Measures(setting, Loopback(setting), options)
            for measure in (measures.uroce_bw, measures.uroce_latency, measures.uroce_sends):
                figures.update(measure())
        with contextlib.ExitStack() as stack:
            measures = Measures(Setting(stack, options.build), None, options)
            for measure in (measures.ucx_bw, measures.ucx_latency, measures.ucx_sends, measures.tcp_bw,
                            measures.relayed_latency):
                figures.update(measure())
        runs.append(figures)
    medians = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    medians["of_posix_bw"] = medians["write_64k_gb_per_s"] / medians["posix_64k_gb_per_s"]
    # Of the means: UCX's median is that of a cache line that moves from one core to another without a process in between.
    medians["posix_lat_ratio"] = medians["write_8b_mean_us"] / medians["posix_8b_mean_us"]
    medians["posix_lat_ratio_of_medians"] = medians["write_8b_us"] / medians["posix_8b_us"]
    # Three processes compete for the available processors, whatever the one in between does.
    medians["lat_of_relayed"] = medians["write_8b_mean_us"] / medians["relayed_8b_mean_us"]
    medians["of_posix_sends"] = medians["send_8b_m_per_s"] / medians["posix_8b_m_per_s"]
    medians["of_tcp_bw"] = medians["write_64k_gb_per_s"] / medians["tcp_gb_per_s"]
    return medians


def main():
    parser = argparse.ArgumentParser(prog="local_bench.sh", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2, help="of each measurement of bandwidth")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    options = parser.parse_args()
    try:
        result = _measure(options)
    except ProcessFailed as error:
        print(f"local_bench.sh: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({name: round(value, 3) for name, value in result.items()}))
        return 0
    for name, value in result.items():
        print(f"  {name:28} {value:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
