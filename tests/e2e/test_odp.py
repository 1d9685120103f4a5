"""On-demand paging with Debian's programs: registered without being touched, brought in by faults."""

import json

from harness.case import E2eCase, on_each_wire
from harness.programs import run_pair

_FEW = ("-n", 100)


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
        answer = self.uroce("odp", "--trace", daemon=daemon)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("resolved", answer.stdout)
