"""rdma-core's own Python suite (Debian's rdma-core and python3-pyverbs) passes; docs/pyverbs.md says what of it."""

import json
import os
import sys

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.places import PYVERBS, ROOT, RUN_SUITE
from harness.process import Process

_PAGE = os.path.join(ROOT, "docs", "pyverbs.md")
_SECONDS_MAX = 150  # it takes a few; a test of it that hangs takes ten

sys.path.append(PYVERBS)
from expectations import Expectations  # noqa: E402  (needs the path above)


class Pyverbs(E2eCase):
    def _outcomes(self, expectations, **environment):
        """Returns the outcome of each test of the generic modules."""
        if not os.path.isdir("/usr/share/doc/rdma-core/tests"):
            self.skipTest("Debian's python3-pyverbs isn't installed, or was installed without its documentation")
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "loopback", ["10.77.0.1/24", "10.77.0.2/24"])
        self.addCleanup(daemon.end)
        report = os.path.join(self.logs, "outcomes.json")
        left_out = [word for module in expectations.modules_left_out for word in ("--leave-out", module)]
        suite = Process([sys.executable, RUN_SUITE, "--report", report,
                         "--ip", "10.77.0.1", *left_out],
                        "suite", self.logs, {**daemon.environment(), **environment})
        self.addCleanup(suite.end)
        suite.wait(_SECONDS_MAX)
        self.assertTrue(os.path.exists(report), f"the suite did not finish: {suite.last_words()}")
        with open(report, encoding="utf-8") as text:
            outcomes = json.load(text)
        daemon.expect_running()
        daemon.stop()
        return outcomes

    def test_generic_modules(self):
        expectations = Expectations(_PAGE)
        problems = list(expectations.problems(self._outcomes(expectations)))
        self.assertFalse(problems, "; ".join(problems))

    def test_without_hooks(self):
        """UROCE_HOOKS=none: everything but on-demand paging works as before."""
        expectations = Expectations(_PAGE)
        outcomes = self._outcomes(expectations, UROCE_HOOKS="none")
        for name in [name for name, (outcome, text) in outcomes.items() if outcome == "skipped" and "ODP" in text]:
            expectations.passed_min -= 1
            outcomes[name] = ["passed on demand only", ""]
        problems = list(expectations.problems(outcomes))
        self.assertFalse(problems, "; ".join(problems))
