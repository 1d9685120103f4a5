"""The base class of all cases: folders, the tree under test, clean-up."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from .places import SOURCES
from .wires import WIRES

_COMPILE_SECONDS_MAX = 60


class Tree:
    """Where the programs under test lie: a build folder, or an installed tree."""

    def __init__(self, build):
        self.root = build
        # The command that starts a daemon. The build's own by default; --uroced names another, e.g. one with AddressSanitizer.
        self.uroced = os.environ.get("UROCE_E2E_UROCED", "").split() or [os.path.join(build, "apps", "uroced")]
        self.uroce = os.path.join(build, "apps", "uroce")
        self.examples = os.path.join(build, "apps", "examples")
        self.integrity = os.path.join(build, "apps", "integrity", "integrity")
        self.shim = os.path.join(build, "verbs_shim")

    def hostile_program(self, name):
        return os.path.join(self.root, "tests", "hostile", name)

    def program_environment(self):
        return {"LD_LIBRARY_PATH": self.shim}


class E2eCase(unittest.TestCase):
    """Settings come in variables from the runner: UROCE_E2E_BUILD, UROCE_E2E_LOGS."""

    seconds_max = 180  # for one case; the runner ends it then
    longDescription = None

    def setUp(self):
        self.tree = Tree(os.environ["UROCE_E2E_BUILD"])
        self.logs = os.environ["UROCE_E2E_LOGS"]
        self.folder = tempfile.mkdtemp(prefix="uroce-e2e-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self._number = 0

    def need(self, *programs):
        """Skips the case when a program isn't there; Debian's package of the same run says which (apps/packages.txt)."""
        missing = [name for name in programs if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None]
        if missing:
            self.skipTest(f"not installed: {', '.join(missing)}")

    def need_root(self, why):
        """`why` completes "needs root: "."""
        if os.geteuid() != 0:
            self.skipTest(f"needs root: {why}")

    def need_character_device(self):
        if not os.path.exists("/dev/infiniband/uroce0"):
            self.need_root("UCX wants /dev/infiniband/uroce0, which uroced makes")

    def next_number(self):
        self._number += 1
        return f"{self._number:02}"

    def wire(self, name, *arguments):
        return WIRES[name](self, arguments)

    def uroce(self, *arguments, daemon=None, **options):
        """Runs the command-line tool; returns the finished process."""
        if "user" in options:
            self.need_root("it runs as another user")
        environment = {**os.environ, **({"UROCE_SOCKET": daemon.socket} if daemon else {})}
        options = {**(daemon.as_owner() if daemon else {}), **options}
        return subprocess.run([self.tree.uroce, *map(str, arguments)], capture_output=True, text=True,
                              timeout=60, check=False, stdin=subprocess.DEVNULL,
                              **{"env": environment, **options})

    def compiled(self, source, *compiler):
        """Compiles a file of sources/; returns the program."""
        program = os.path.join(self.folder, source.rsplit(".", 1)[0])
        answer = subprocess.run([*compiler[:1], "-O1", "-o", program, os.path.join(SOURCES, source), *compiler[1:]],
                                capture_output=True, text=True, check=False, timeout=_COMPILE_SECONDS_MAX)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return program

    def status(self, daemon):
        answer = self.uroce("status", "--json", daemon=daemon)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def bytes_sent(self, daemon):
        """What queue pairs of this daemon's cards have sent so far, in frames and without them."""
        return sum(device["hw_counters"][name] for device in self.status(daemon)["devices"] for name in ("bytes_sent", "direct_bytes"))


def on_each_wire(case):
    """Class decorator: a method `check_x(wire)` becomes a test on each wire, test_x_loopback and so on."""
    for name in [name for name in dir(case) if name.startswith("check_")]:
        for wire in WIRES:
            def test(self, _check=name, _wire=wire):
                getattr(self, _check)(self.wire(_wire))
            test.__doc__ = getattr(case, name).__doc__
            setattr(case, f"test_{name.removeprefix('check_')}_{wire}", test)
    return case
