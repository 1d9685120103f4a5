"""apps/integrity: random operations of all kinds and sizes; every byte and completion verified."""

import os
import re
import subprocess

from harness.case import E2eCase, on_each_wire
from harness.programs import Shape, run_pair

_OPERATIONS = 1_000_000 if os.environ.get("UROCE_E2E_LONG") else 100_000
SHAPE = Shape(port=("--port",), serve=("--server",), connect=("--connect",))
FAULTS = "loss=0.02,dup=0.01,reorder=0.02,corrupt=0.005,seed=7"


class IntegrityCase(E2eCase):
    seconds_max = 900 if os.environ.get("UROCE_E2E_LONG") else 300

    def run_integrity(self, wire, operations=_OPERATIONS, odp=None, **options):
        on_demand = ("--odp", odp) if odp else ()
        out = run_pair(self, wire, self.tree.integrity, "--ops", operations, "--size-max", 131_072, *on_demand, shape=SHAPE,
                       seconds_max=self.seconds_max - 30, **options)
        done = int(re.search(r"(\d+) operations, 0 errors", out).group(1))
        self.assertGreaterEqual(done, operations)


class IntegrityTerms(E2eCase):
    def test_numbers_that_make_no_sense(self):
        """From flags or from the peer: checked before anything is made of them."""
        for terms in (("--qps", "0"), ("--size-max", "0"), ("--transport", "ud", "--size-max", "8")):
            answer = subprocess.run([self.tree.integrity, *terms], capture_output=True, text=True,
                                    timeout=20, check=False)
            self.assertEqual(answer.returncode, 2, answer.stderr)
            self.assertIn("queue pairs", answer.stderr)


class IntegrityOfAnOrdinaryUser(E2eCase):
    def test_fits_what_a_user_may_lock(self):
        """Debian lets users lock 8 MiB. What needs more says how to need less."""
        self.need_root("it runs as another user")
        os.chmod(self.folder, 0o755)
        daemon = self.wire("loopback").server.daemon
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "prlimit", "--memlock=8388608", self.tree.uroce, "integrity", "--ops", "1000"]
        single = ("--qps", "1")
        for options in ((), ("--windows",), ("--srq", *single), ("--transport", "uc", *single), ("--transport", "ud", *single),
                        ("--transport", "xrc", *single)):
            with self.subTest(options):
                answer = self._run(daemon, *user, *options)
                self.assertEqual((answer.returncode, answer.stderr), (0, ""), answer.stdout)
        answer = self._run(daemon, *user, "--size-max", "131072")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("integrity: ibv_reg_mr failed: Cannot allocate memory; a smaller --size-max or --qps needs less\n", answer.stderr)

    def _run(self, daemon, *command):
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "UROCE_SOCKET": daemon.socket})


@on_each_wire
class Integrity(IntegrityCase):
    def check_clean(self, wire):
        self.run_integrity(wire)


class IntegrityWithinADaemon(IntegrityCase):
    """Messages between the programs of one daemon need no frames, unless it is told to send some."""

    def _messages_without_frames(self, wire):
        return self.status(wire.server.daemon)["devices"][0]["hw_counters"]["direct_messages"]

    def test_direct_loopback(self):
        wire = self.wire("loopback")
        self.run_integrity(wire)
        self.assertGreater(self._messages_without_frames(wire), _OPERATIONS // 2)

    def test_frames_loopback(self):
        wire = self.wire("loopback", "--direct", "off")
        self.run_integrity(wire)
        self.assertEqual(self._messages_without_frames(wire), 0)


class IntegrityUnderFaults(IntegrityCase):
    def test_faults_loopback(self):
        self.run_integrity(self.wire("loopback", "--faults", FAULTS))

    def test_faults_shm(self):
        self.run_integrity(self.wire("shm", "--faults", FAULTS))

    def test_faults_shm_two_workers(self):
        self.run_integrity(self.wire("shm", "--faults", FAULTS, "--workers", "2"), _OPERATIONS // 4)

    def test_faults_shared_memory(self):
        self.run_integrity(self.wire("shared_memory", "--faults", FAULTS))

    def test_faults_veth(self):
        self.run_integrity(self.wire("veth", "--faults", FAULTS))


class IntegrityByWindows(IntegrityCase):
    """Memory windows, invalidation from both sides, ATOMIC WRITE and FLUSH."""

    def test_windows_loopback(self):
        self.run_windows(self.wire("loopback"))

    def test_windows_shm_faults(self):
        self.run_windows(self.wire("shm", "--faults", FAULTS), operations=4_000)

    def test_windows_shared_memory_faults(self):
        self.run_windows(self.wire("shared_memory", "--faults", FAULTS), operations=4_000)

    def test_windows_on_demand(self):
        """Windows on regions that are paged on demand, one each and the one of all memory."""
        wire = self.wire("loopback")
        for kind in ("explicit", "implicit"):
            self.run_windows(wire, 2_000, "--odp", kind)

    def run_windows(self, wire, operations=20_000, *options):
        # The initiating side prints the count; the other one doesn't.
        out = run_pair(self, wire, self.tree.integrity, "--ops", operations, "--windows", *options, shape=SHAPE)
        self.assertIn(" operations, 0 errors", out)


class IntegrityOnDemand(IntegrityCase):
    """Memory that is paged on demand, and a thread that keeps unmapping, remapping, dropping and refilling it. Under packet
    faults an operation takes 2 ms, waiting for lost packets, as with pinned memory: so only a tenth as many are done. Without,
    it takes 1 ms, waiting for pages: a quarter."""

    def test_explicit_loopback(self):
        self.run_integrity(self.wire("loopback"), _OPERATIONS // 4, odp="explicit")

    def test_explicit_shared_memory_faults(self):
        self.run_integrity(self.wire("shared_memory", "--faults", FAULTS), _OPERATIONS // 10, odp="explicit")

    def test_implicit_loopback_faults(self):
        self.run_integrity(self.wire("loopback", "--faults", FAULTS), _OPERATIONS // 10, odp="implicit")

    def test_implicit_veth(self):
        self.run_integrity(self.wire("veth"), _OPERATIONS // 4, odp="implicit")


class IntegrityByCopy(IntegrityCase):
    def test_copied_memory(self):
        self.run_integrity(self.wire("loopback"), operations=20_000, environment={"UROCE_MEMORY": "copy"})


class LossyCase(E2eCase):
    def run_lossy(self, wire, transport):
        """Returns how many of the peer's messages were lost, and how many were sent."""
        out = run_pair(self, wire, self.tree.integrity, "--ops", 8192, "--transport", transport, shape=SHAPE)
        done = int(re.search(r"(\d+) operations, 0 errors", out).group(1))
        return int(re.search(r"(\d+) messages of the peer lost", out).group(1)), done // 2


@on_each_wire
class Lossy(LossyCase):
    def check_unreliable(self, wire):
        for transport in ("uc", "ud"):
            lost, sent = self.run_lossy(wire, transport)
            # What arrives while the receiving daemon waits for a processor overruns the interface's ring.
            self.assertLess(lost, sent // 2, "nothing loses packets on purpose")


class LossyUnderFaults(LossyCase):
    def test_unreliable_faults_loopback(self):
        wire = self.wire("loopback", "--faults", FAULTS)
        for transport in ("uc", "ud"):
            lost, _ = self.run_lossy(wire, transport)
            self.assertGreater(lost, 0, "2 % of the packets were lost")


class SharedReceives(IntegrityCase):
    """Shared receive queues of RC and of XRC, which run empty now and then: no message is lost."""

    def test_shared_loopback(self):
        self.run_shared(self.wire("loopback"))

    def test_shared_memory_faults(self):
        self.run_shared(self.wire("shared_memory", "--faults", FAULTS))

    def test_shared_veth(self):
        self.run_shared(self.wire("veth"))

    def run_shared(self, wire):
        for service in (("--srq",), ("--transport", "xrc")):
            out = run_pair(self, wire, self.tree.integrity, "--ops", 4_096, *service, shape=SHAPE)
            self.assertIn("0 messages of the peer lost, 0 came twice, 0 too late", out)
            self.assertIn(" operations, 0 errors", out)
