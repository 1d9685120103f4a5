"""A busy machine isn't mistaken for a dead peer: random operations over a faulty network, beside eight busy processes."""

import os
import re
import time

from harness.process import Process
from harness.programs import run_pair
from harness.udp_wire import IPV4, Udp
from verbs.test_integrity import FAULTS, SHAPE, IntegrityCase

_LONG = bool(os.environ.get("UROCE_E2E_LONG"))
_OPERATIONS, _RUNS = (100_000, 5) if _LONG else (10_000, 1)
_BUSY = 8
_SECONDS_MAX = 3_600 if _LONG else 300


class BesideBusyProcesses(IntegrityCase):
    seconds_max = _SECONDS_MAX

    def test_busy_loopback(self):
        self.run_busy(self.wire("loopback", "--faults", FAULTS))

    def test_busy_veth(self):
        self.run_busy(self.wire("veth", "--faults", FAULTS))

    def test_busy_udp(self):
        """As an ordinary user, with as much memory as its limit of locked memory allows."""
        self.run_busy(Udp(self, ["--faults", FAULTS]), "--qps", 2, "--size-max", 131_072, "--gid-index", IPV4)

    def run_busy(self, wire, *arguments):
        for number in range(_BUSY):
            busy = Process(["/bin/sh", "-c", "while :; do :; done"], f"busy-{number}", self.logs)
            self.addCleanup(busy.end)
        for seed in range(1, _RUNS + 1):
            start = time.monotonic()
            out = run_pair(self, wire, self.tree.integrity, "--ops", _OPERATIONS, "--seed", seed, *arguments, shape=SHAPE,
                           seconds_max=_SECONDS_MAX)
            done, errors = map(int, re.search(r"(\d+) operations, (\d+) errors", out).groups())
            print(f"{done} operations, {errors} errors in {time.monotonic() - start:.0f} s beside {_BUSY} busy processes", flush=True)
            self.assertEqual(errors, 0, out)
            self.assertGreaterEqual(done, _OPERATIONS)
