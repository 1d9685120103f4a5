"""Run by programs.sh. Each row is an application that runs on a loopback card and over TCP on the kernel's loopback, with an ordinary
user's programs of tests/e2e; the first number is RDMA's."""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

from harness import rdmacm  # noqa: E402  (needs the path above)
from harness.application import ADDRESS, LOCKING_NOBODY, ApplicationCase  # noqa: E402
from harness.process import ProcessFailed, wait_until  # noqa: E402
from harness.programs import listens, qperf_output  # noqa: E402
from harness.wires import free_tcp_port  # noqa: E402

_SECONDS_MAX = 120
_HOST = "127.0.0.1"
_BLOCK, _FIO_BYTES, _DISK_BYTES = 65536, 4 << 30, 512 << 20
_PRELOADED = f"/usr/lib/{os.uname().machine}-linux-gnu/rsocket/librspreload.so"
_UCX = {True: {"UCX_TLS": "rc_v,ud_v,self", "UCX_NET_DEVICES": "uroce0:1"}, False: {"UCX_TLS": "tcp,self"}}


def _output(start_client, seconds_max):
    return start_client().expect_success(seconds_max)


class Programs(ApplicationCase):
    """Methods are rows: `rdma` chooses RDMA or TCP. They return a number, whose unit is in the method's name."""

    user = LOCKING_NOBODY

    def prepare(self):
        self.end = self.card()
        self.mpi = self.compiled("mpi_check.c", "mpicc.openmpi")

    def _pair(self, server, client, port, by_cm, environment=None, output_of=_output):
        """Starts the server, and the client when the server listens. Returns the client's output."""
        serving = self.start(self.end, "server", *server, environment=environment)
        there = (lambda: rdmacm.listens(self, self.end, port)) if by_cm else (lambda: listens(self.end.pid, port))
        wait_until(lambda: serving.ended() or there(), 30, f"{server[0]} listening")
        out = output_of(lambda: self.start(self.end, "client", *client, environment=environment), _SECONDS_MAX)
        serving.end()
        return out

    def _qperf(self, rdma, test):
        port = free_tcp_port()
        out = self._pair(["qperf", "-lp", port], ["qperf", ADDRESS if rdma else _HOST, "-lp", port, "-t", 1, "-uu",
                                                  *(["-cm", 1] if rdma else []), f"{'rc' if rdma else 'tcp'}_{test}"],
                         port, False, output_of=qperf_output)
        return int(out.split("=")[1].split()[0])

    def qperf_mb_per_s(self, rdma):
        return self._qperf(rdma, "bw") / 1e6

    def qperf_latency_us(self, rdma):
        return self._qperf(rdma, "lat") / 1e3

    def ucx_tag_bw_mb_per_s(self, rdma):
        port = free_tcp_port()
        common = ["ucx_perftest", "-t", "tag_bw", "-s", _BLOCK, "-n", 2000, "-w", 100, "-f", "-p", port]
        out = self._pair(common, [*common, _HOST], port, False, _UCX[rdma])
        return float(out.split()[-3]) * 1.048576  # the overall bandwidth, in MiB/s

    def iperf_rsockets_mb_per_s(self, rdma):
        port, host = free_tcp_port(), ADDRESS if rdma else _HOST
        out = self._pair(["iperf", "-s", "-B", host, "-p", port], ["iperf", "-c", host, "-p", port, "-t", 1, "-y", "C"],
                         port, rdma, {"LD_PRELOAD": _PRELOADED} if rdma else None)
        return int(out.split(",")[-1]) / 8e6

    def fio_write_mb_per_s(self, rdma):
        port = free_tcp_port()
        engine = ["--ioengine=rdma"] if rdma else ["--ioengine=net", "--protocol=tcp"]
        common = ["fio", *engine, f"--port={port}", "--bs=64k"]
        verb = ["--verb=write", "--iodepth=16", "--iodepth_batch_complete=1"] if rdma else []
        # Over TCP the server expects more than it gets: if it ended first, the client would get SIGPIPE.
        expected = [f"--size={_FIO_BYTES}"] if rdma else [f"--size={2 * _FIO_BYTES}", "--listen"]
        out = self._pair([*common, "--name=server", "--rw=read", "--iodepth=16", *expected],
                         [*common, "--name=client", f"--size={_FIO_BYTES}", f"--hostname={ADDRESS if rdma else _HOST}", "--rw=write", *verb,
                          "--output-format=json"], port, rdma)
        return json.loads(out)["jobs"][0]["write"]["bw_bytes"] / 1e6

    def open_mpi_check_s(self, rdma):
        by = {True: ["--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "^openib,ofi"],
              False: ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]}
        start = time.monotonic()
        self.start(self.end, "mpirun", "mpirun.openmpi", "-np", 2, "--oversubscribe", *by[rdma], "--mca",
                   "mpi_yield_when_idle", 1, self.mpi, environment=_UCX[rdma]).expect_success(_SECONDS_MAX)
        return time.monotonic() - start

    def iser_or_iscsi_read_mb_per_s(self, rdma):
        port, driver, host = 3260, "iser" if rdma else "iscsi", ADDRESS if rdma else _HOST
        disk, name = os.path.join(self.folder, f"disk-{driver}"), "iqn.2026-11.uroce:disk"
        with open(disk, "wb") as file:
            file.write(bytes(_DISK_BYTES))
        environment = {"TGT_IPC_SOCKET": os.path.join(self.folder, f"tgt-{driver}-{self.next_number()}")}
        portal = f"port={port},pool_sz_mb=16" if rdma else f"portal={host}:{port}"
        target = self.start(self.end, "tgtd", "tgtd", "-f", f"--{driver}", portal, environment=environment)
        wait_until(lambda: target.ended() or (rdmacm.listens(self, self.end, port) if rdma else
                                              listens(self.end.pid, port)), 30, "tgtd listening")
        for mode, operation, *rest in (("target", "new", "-T", name), ("logicalunit", "new", "--lun", 1, "-b", disk),
                                       ("target", "bind", "-I", "ALL"),
                                       ("target", "bind", "-Q", "iqn.2008-11.org.linux-kvm")):
            self.start(self.end, "tgtadm", "tgtadm", "--lld", driver, "--mode", mode, "--op", operation, "--tid", 1, *rest,
                       environment=environment).expect_success(_SECONDS_MAX)
        start = time.monotonic()
        self.start(self.end, "qemu-img", "qemu-img", "dd", "-f", "raw", "-O", "raw", "bs=64k", "of=copy",
                   f"if={driver}://{host}:{port}/{name}/1").expect_success(_SECONDS_MAX)
        seconds = time.monotonic() - start
        target.end()
        return _DISK_BYTES / seconds / 1e6


_ROWS = ("qperf_mb_per_s", "qperf_latency_us", "ucx_tag_bw_mb_per_s", "iperf_rsockets_mb_per_s", "fio_write_mb_per_s",
         "open_mpi_check_s", "iser_or_iscsi_read_mb_per_s")


def _measure(options):
    """Alternates both, so that a slow minute of the machine affects both alike."""
    result = {}
    with tempfile.TemporaryDirectory(prefix="uroce-bench-") as logs:
        os.environ.update(UROCE_E2E_BUILD=os.path.abspath(options.build), UROCE_E2E_LOGS=logs)
        programs = Programs()
        programs.setUp()
        try:
            programs.prepare()
            for row in [row for row in _ROWS if not options.words or any(word in row for word in options.words)]:
                runs = [(getattr(programs, row)(True), getattr(programs, row)(False)) for _ in range(options.runs)]
                ours, tcp = (statistics.median(values) for values in zip(*runs))
                result[row] = {"rdma": round(ours, 2), "tcp": round(tcp, 2), "ratio": round(ours / tcp, 2)}
                if not options.json:
                    print(f"  {row:28} uroce {ours:9.1f}   TCP {tcp:9.1f}   ratio {ours / tcp:5.2f}", flush=True)
        finally:
            programs.doCleanups()
    return result


def main():
    parser = argparse.ArgumentParser(prog="programs.sh", description=__doc__)
    parser.add_argument("words", nargs="*", help="only rows with one of these words")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    options = parser.parse_args()
    try:
        result = _measure(options)
    except (ProcessFailed, AssertionError, unittest.SkipTest) as error:
        print(f"programs.sh: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
