"""The daemon's static probes are those that apps/tracing/README.md lists, and the scripts there work."""

import errno
import os
import re
import signal
import subprocess

from harness.case import E2eCase
from harness.places import ROOT
from harness.process import Process, wait_until
from harness.programs import run_pair

_TRACING = os.path.join(ROOT, "apps", "tracing")
_FAULTS = "corrupt=0.05,seed=7"
_ITERATIONS = 500
# Error messages of kernels or containers that refuse tracing, or of kernels built without it.
_REFUSED = re.compile(r"(?i)not permitted|permission denied|not supported|mount: |perf_event_paranoid|\bCONFIG_[A-Z_]+")


class Tracing(E2eCase):
    def probes(self):
        """The probes in the daemon's program: (name, arguments) of each location."""
        notes = subprocess.run(["readelf", "-n", os.path.join(self.tree.root, "apps", "uroced")], capture_output=True, text=True, timeout=60, check=True).stdout
        found = [(name, arguments.split()) for name, arguments in re.findall(r"Provider: uroce\n\s+Name: (\w+)\n.*\n\s+Arguments: (.*)", notes)]
        if not found and not os.path.exists(f"/usr/include/{os.uname().machine}-linux-gnu/sys/sdt.h"):
            self.skipTest("built without sys/sdt.h")
        return found

    def script(self, name):
        with open(os.path.join(_TRACING, name), encoding="utf-8") as text:
            return text.read()

    def test_probes(self):
        listed = {name: len(arguments.split(",")) for name, arguments in re.findall(r"^\| `uroce:(\w+)` \|[^|]*\| ([^|]*) \|$", re.sub(r"\([^)]*\)", "", self.script("README.md")), re.MULTILINE)}
        self.assertEqual(len(listed), 7)
        self.assertEqual({name: len(arguments) for name, arguments in self.probes()}, listed)

    def test_scripts_name_probes_that_there_are(self):
        there = {name: len(arguments) for name, arguments in self.probes()}
        for script in os.listdir(_TRACING):
            for name, body in re.findall(r"\buroce:(\w+)'?([^}\n]*)", self.script(script)):
                self.assertIn(name, there, script)
                for argument in re.findall(r"\barg(\d)", body):
                    self.assertLess(int(argument), there[name], f"{script}: {name}")

    def test_perf_can_take_the_arguments_of_drops(self):
        """perf accepts no constant arguments, and needs the same registers at each location of a probe."""
        drops = [arguments for name, arguments in self.probes() if name == "drop"]
        self.assertEqual(len(drops), 1, drops)
        self.assertNotIn("$", "".join(drops[0]))

    def _expect_tracing(self, trace):
        """A machine that refuses tracing isn't a failure; any other error is."""
        if trace.ended():
            code = trace.wait(0)
            said = f"{trace.name} ended with {code}: {trace.last_words()}"
            if code == 256 - errno.EEXIST:  # `perf probe --quiet` says no more
                self.skipTest(f"{said}; the machine has one probe sdt_uroce:drop, and another run has it")
            if code != 256 - errno.EACCES and not _REFUSED.search(trace.out() + trace.err()):
                self.fail(said)
            self.skipTest(f"this machine lets nobody trace: {said}")

    def _run_traffic(self, wire):
        run_pair(self, wire, "ib_write_bw", "-x", "1", "-n", _ITERATIONS, "-s", "16384", "-F")

    def _drops(self, daemon):
        return self.status(daemon)["workers"][0]["drops"].get("bad_icrc", 0)

    def test_bpftrace(self):
        """The script's counts are the daemon's."""
        self.need("bpftrace")
        self.need_root("it has the kernel trace a process")
        wire = self.wire("loopback", "--faults", _FAULTS)
        trace = Process(["bpftrace", os.path.join(_TRACING, "completions.bt"), "-p", wire.server.daemon.process.pid], "bpftrace", self.logs)
        self.addCleanup(trace.end)
        wait_until(lambda: "@faults" in trace.out() or trace.ended(), 60, "the probes are in place")
        self._expect_tracing(trace)
        before = self._drops(wire.server.daemon)
        self._run_traffic(wire)
        dropped = self._drops(wire.server.daemon) - before
        reason = self._reason_of("bad_icrc")

        def counted(name, key):
            return sum(int(count) for count in re.findall(rf"@{name}\[{key}\]: (\d+)", trace.out()))
        wait_until(lambda: counted("drops", reason) >= dropped, 60, "all drops")
        print(f"completions {counted('completions', 0)}, drops {counted('drops', reason)} of {dropped}", flush=True)
        self.assertGreater(dropped, 0)
        self.assertEqual(counted("drops", reason), dropped)
        self.assertGreater(counted("completions", 0), 0)
        trace.signal(signal.SIGINT)

    def _reason_of(self, name):
        """The number of its line in drop.def."""
        with open(os.path.join(_TRACING, "..", "..", "dataplane", "wire", "drop.def"), encoding="utf-8") as lines:
            return 1 + re.findall(r'^UROCE_DROP\(\w+, "(\w+)"', lines.read(), re.MULTILINE).index(name)

    def test_perf(self):
        self.need("perf")
        self.need_root("it has the kernel trace a process")
        wire = self.wire("loopback", "--faults", _FAULTS)
        program = os.path.join(self.tree.root, "apps", "uroced")
        command = f"mount -t tracefs none /sys/kernel/tracing && mount -t debugfs none /sys/kernel/debug && exec sh {_TRACING}/perf_drops.sh {program}"
        trace = Process(["unshare", "-m", "sh", "-c", command], "perf", self.logs, {"HOME": self.folder})
        self.addCleanup(self._end_perf, trace)
        wait_until(lambda: trace.ended() or "looking" in trace.err(), 60, "the probe is in place")
        self._expect_tracing(trace)
        self._run_traffic(wire)
        reason = f"{self._reason_of('bad_icrc')}"
        wait_until(lambda: re.search(rf"sdt_uroce:drop.*arg3[=: ]+{reason}\b", trace.out() + trace.err()), 30, "a drop with its reason")
        print((trace.out() + trace.err())[:1000], flush=True)

    @staticmethod
    def _end_perf(trace):
        """perf's probe is global to the machine, so the script must remove it."""
        trace.signal(signal.SIGINT)
        trace.ended_within(20)
        trace.end()
