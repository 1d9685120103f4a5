"""One user takes as much as possible of each shared resource."""

from harness.victim import VICTIM
from hostile_case import HostileCase


class Shares(HostileCase):
    def _check(self, kind, least):
        """The victim isn't affected, and its user can still get at least this much of the resource."""
        self.check_victim(lambda: self.attack("shares", kind))
        other = self.attack("shares", kind, uid=VICTIM)
        took = int(other.out().split()[1])
        print(f"the other user took {took} {kind}", flush=True)
        self.assertGreaterEqual(took, least)
        self.daemon.expect_running()

    def test_protection_domains(self):
        """All protection domains: other users can still make some."""
        self._check("pds", 10_000)

    def test_mappings(self):
        """All mappings, by completion queues."""
        self._check("cqs", 4_000)

    def test_descriptors(self):
        """All descriptors, by completion channels."""
        self._check("channels", 1_000)

    def test_windows(self):
        """All memory windows."""
        self._check("windows", 10_000)

    def test_device_memory(self):
        """All device memory."""
        self._check("dms", 100)

    def test_queue_pairs(self):
        """All queue pair numbers."""
        self._check("qps", 10_000)

    def test_status(self):
        """All queue pairs, and 60 connections that request status reports without reading them: the daemon's memory stays small."""
        self.check_victim(lambda: self.attack("status", "60"))
        with open(f"/proc/{self.daemon.process.pid}/status", encoding="ascii") as status:
            resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        print(f"resident: {resident // 1024} MiB", flush=True)
        self.assertLess(resident, 512 * 1024)
