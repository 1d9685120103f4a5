"""On-demand paging with Debian's programs: memory is registered untouched and populated by page faults."""

import errno
import json
import os
import subprocess
import sys

from harness.case import E2eCase, on_each_wire
from harness.places import PYVERBS
from harness.programs import run_pair

_FEW = ("-n", 100)
_HAZARDS = os.path.join(PYVERBS, "odp_hazards.py")


@on_each_wire
class OnDemand(E2eCase):
    def check_explicit(self, wire):
        run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", "-o", *_FEW)

    def check_prefetched(self, wire):
        run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", "-o", "-P", *_FEW)

    def check_implicit(self, wire):
        run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", "-O", *_FEW)

    def check_perftest(self, wire):
        for tool in ("ib_write_bw", "ib_read_bw", "ib_send_lat"):
            with self.subTest(tool=tool):
                run_pair(self, wire, tool, "-F", "-x", 1, "-n", 20, "-s", 65536, "--odp")


class Report(E2eCase):
    def test_faults_are_counted(self):
        wire = self.wire("loopback")
        run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", "-o", *_FEW)
        daemon = wire.server.daemon
        answer = self.uroce("odp", "--json", daemon=daemon)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        report = json.loads(answer.stdout)
        self.assertGreater(len(report["trace"]), 0)
        self.assertTrue(all(fault["outcome"] == "resolved" for fault in report["trace"]), report["trace"])
        self.assertEqual(report["sessions"], [])
        worker = self.status(daemon)["workers"][0]
        self.assertGreater(worker["page_fault_time"]["count"], 0)
        self.assertLessEqual(worker["page_fault_time"]["count"], worker["page_faults"])
        self.assertGreater(worker["page_fault_time"]["p50_ns"], 0)
        answer = self.uroce("odp", "--trace", daemon=daemon)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("resolved", answer.stdout)


class Hazards(E2eCase):
    """What pyverbs/odp_hazards.py does to its own memory. The daemon outlives it all."""

    def _start(self, hazard, *arguments):
        self.daemon = self.wire("loopback", *arguments).server.daemon
        return subprocess.Popen([sys.executable, _HAZARDS, hazard], env={**os.environ, **self.daemon.environment()},
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def _finish(self, program):
        out, said = program.communicate(timeout=90)
        self.assertEqual(program.returncode, 0, said)
        self.daemon.expect_running()
        return json.loads(out.splitlines()[-1])

    def test_a_file_is_truncated(self):
        self._finish(self._start("truncate"))

    def test_a_program_is_stopped(self):
        figures = self._finish(self._start("stopped"))
        self.assertLess(figures["waited_s"], 20)

    def test_more_than_may_be_resident(self):
        limit = 32 << 20
        program = self._start("limit", "--odp-resident-limit", limit)
        self.addCleanup(program.kill)
        written = json.loads(program.stdout.readline())["written"]
        report = json.loads(self.uroce("odp", "--json", daemon=self.daemon).stdout)
        self.assertGreater(written, 3 * limit)
        self.assertLess(report["resident_bytes"], 2 * limit, report)
        self.assertGreater(report["sessions"][0]["evicted_bytes"], 0, report)
        self._finish(program)

    def test_advice_that_makes_no_sense(self):
        outcomes = self._finish(self._start("advise"))
        self.assertEqual(outcomes.pop("good"), 0)
        for what, code in outcomes.items():
            self.assertIn(code, (errno.EINVAL, errno.EFAULT, errno.EPERM, errno.ENOENT), what)
