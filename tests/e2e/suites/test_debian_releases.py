"""Programs of other Debian releases, unmodified, with the shim that was built here: Debian 13 (rdma-core 56.1, glibc 2.41) and, with
--long, sid (rdma-core 65). The daemon runs outside. docs/pyverbs.md says what of rdma-core's suites passes."""

import json
import os
import sys

from harness.case import E2eCase
from harness.debian_root import DebianRoot
from harness.places import PYVERBS, ROOT
from harness.process import Process
from harness.programs import run_pair
from harness.rdmacm import run_cm_pair
from harness.wires import Endpoint, Wire

_PAGE = os.path.join(ROOT, "docs", "pyverbs.md")
_SUITE_SECONDS_MAX = 200
_TOOL_SECONDS_MAX = 60

sys.path += [PYVERBS, os.path.join(ROOT, "tests", "unit", "shim")]
from expectations import Expectations  # noqa: E402  (needs the path above)
from symbols import bound, symbols, users  # noqa: E402


class _Loopback(Wire):
    """Both programs in the root, one daemon outside of it."""

    def _join(self):
        daemon = self._start("uroced", "loopback", ["10.77.0.1/24", "10.77.0.2/24"])
        self.server = self.client = Endpoint(daemon, "10.77.0.1", "127.0.0.1", prefix=self.setting.root.prefix(daemon))


class _Release:
    """A mixin: the cases of one release."""

    seconds_max = 400  # the first one makes the root
    suite = release = ""

    def setUp(self):
        super().setUp()
        self.root = DebianRoot(self, self.suite)

    def _run(self, wire, name, *command, seconds_max=_TOOL_SECONDS_MAX):
        process = Process([*wire.server.prefix, *command], name, self.logs)
        self.addCleanup(process.end)
        return process, process.wait(seconds_max)

    def _printed(self, wire, name, *command):
        process, code = self._run(wire, name, *command)
        self.assertEqual(code, 0, process.last_words())
        return process.out()

    def test_every_name_is_there(self):
        """What the release's programs and libraries import, and what its libibverbs has."""
        ours = bound(symbols(os.path.join(self.tree.shim, "libibverbs.so.1"))[0])
        library = os.path.join(self.root.path, f"usr/lib/{os.uname().machine}-linux-gnu/libibverbs.so.1")
        self.assertFalse(sorted(name for name in bound(symbols(library)[0]) - ours if "@" in name))
        objects = list(users(self.root.path))
        self.assertGreater(len(objects), 50)
        for path in objects:
            with self.subTest(path=path):
                self.assertFalse(sorted(bound(symbols(path)[1]) - ours))

    def test_tools(self):
        wire = _Loopback(self)
        self.assertIn("PORT_ACTIVE", self._printed(wire, "devinfo", "ibv_devinfo", "-v", "-d", "uroce0"))
        self.assertIn("provider: verbs", self._printed(wire, "fi_info", "fi_info", "-p", "verbs"))
        transports = self._printed(wire, "ucx_info", "ucx_info", "-d")
        # sid's package was built without it.
        if self.suite != "sid" or self.root.has(f"usr/lib/{os.uname().machine}-linux-gnu/ucx/libuct_ib.so.0"):
            for transport in ("rc_verbs", "ud_verbs"):
                self.assertIn(transport, transports)

    def test_pingpong(self):
        wire = _Loopback(self)
        for program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"):
            run_pair(self, wire, program, "-d", "uroce0", "-g", 1, "-n", 200)

    def test_perftest(self):
        wire = _Loopback(self)
        for program, *arguments in (("ib_send_bw",), ("ib_write_bw",), ("ib_read_bw",), ("ib_atomic_bw",), ("ib_write_lat",),
                                    ("ib_send_lat", "-c", "UD"), ("ib_send_bw", "-c", "UC")):
            out = run_pair(self, wire, program, "-F", "-d", "uroce0", "-x", 1, "-n", 100, *arguments)
            self.assertIn("BW average" if program.endswith("bw") else "t_typical", out)

    def test_connection_manager(self):
        ping = ["rping", "-V", "-C", 20, "-a", "SERVER", "-p", "PORT"]
        run_cm_pair(self, _Loopback(self), [*ping, "-s"], [*ping, "-c"])

    def test_pyverbs(self):
        wire = _Loopback(self)
        expectations = Expectations(_PAGE, self.release)
        self._run(wire, "pyverbs", "/usr/bin/python3", "/uroce/e2e/pyverbs/run_suite.py", "--ip", "10.77.0.1", "--report",
                  "/uroce/logs/outcomes.json", seconds_max=_SUITE_SECONDS_MAX)
        with open(os.path.join(self.logs, "outcomes.json"), encoding="utf-8") as text:
            outcomes = json.load(text)
        wire.stop()
        problems = list(expectations.problems(outcomes))
        self.assertFalse(problems, "; ".join(problems))


class Debian13(_Release, E2eCase):
    suite, release = "trixie", "Debian 13"


class Sid(_Release, E2eCase):
    suite, release = "sid", "Debian sid"

    def setUp(self):
        if not os.environ.get("UROCE_E2E_LONG"):
            self.skipTest("only with --long: packages of sid, which change")
        super().setUp()
