"""rdma-core's own Python suite (Debian's rdma-core and python3-pyverbs) passes; docs/pyverbs.md says what of it."""

import json
import os
import sys

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.process import Process

_E2E = os.path.dirname(os.path.abspath(__file__))
_SUITE = os.path.join(_E2E, "pyverbs")  # not a package: Debian's module has this name
_PAGE = os.path.join(_E2E, "..", "..", "docs", "pyverbs.md")
_SECONDS_MAX = 150  # it takes a few; a test of it that hangs takes ten

sys.path.append(_SUITE)
from expectations import Expectations  # noqa: E402  (needs the path above)


class Pyverbs(E2eCase):
    def test_generic_modules(self):
        if not os.path.isdir("/usr/share/doc/rdma-core/tests"):
            self.skipTest("Debian's python3-pyverbs isn't installed, or was installed without its documentation")
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "loopback", ["10.77.0.1/24", "10.77.0.2/24"])
        self.addCleanup(daemon.end)
        expectations = Expectations(_PAGE)
        report = os.path.join(self.logs, "outcomes.json")
        left_out = [word for module in expectations.modules_left_out for word in ("--leave-out", module)]
        suite = Process([sys.executable, os.path.join(_SUITE, "run_suite.py"), "--report", report,
                         "--ip", "10.77.0.1", *left_out],
                        "suite", self.logs, daemon.environment())
        self.addCleanup(suite.end)
        suite.wait(_SECONDS_MAX)
        self.assertTrue(os.path.exists(report), f"the suite did not finish: {suite.last_words()}")
        with open(report, encoding="utf-8") as text:
            outcomes = json.load(text)
        problems = list(expectations.problems(outcomes))
        self.assertFalse(problems, "; ".join(problems))
        daemon.expect_running()
        daemon.stop()
