"""Memory whose program never populates it, or removes it while it is written to."""

import os
import time

from hostile_case import ATTACK_SECONDS, ATTACKER, HostileCase

_PUNCHED_MIB = 256
_PUNCHERS = 10
_NOTICED_SECONDS = 1  # the responsible user isn't known at once
_LOOK_SECONDS = 0.005
_WAITS_MAX = 0.4  # the user gets 1/32 in the long run, plus an initial allowance


class Memory(HostileCase):
    def test_written_to_pages_that_never_come(self):
        """The card writes to a page of a file system (FUSE) that doesn't answer."""
        self.check_victim(lambda: self.attack("memory", "write", ATTACKER, uid=0))

    def test_read_pages_that_never_come(self):
        """The card reads such a page."""
        self.check_victim(lambda: self.attack("memory", "read", ATTACKER, uid=0))

    def test_punched_file(self):
        """All pages of files are punched out, over and over, while the card writes to them: the worker waits for the kernel,
        and the attacking user is charged for that time."""
        def punch():
            for _ in range(_PUNCHERS):
                self.attack("punch", _PUNCHED_MIB)
            self.let_pass(_NOTICED_SECONDS)

        self.check_victim(punch, set_up_counts=False)
        waits = self.share_of_waits(self.worker_thread())
        print(f"the worker waited for {waits:.3f} of the time", flush=True)
        self.expect_attacked()
        self.assertLess(waits, _WAITS_MAX)

    def test_many_pieces(self):
        """A region of 2,000 pieces of 16 MiB, which the daemon maps: it doesn't populate all of them at once."""
        self.check_victim(lambda: self.attack("pieces", ATTACKER, 2_000, uid=0))

    def test_closing_sessions(self):
        """Two sessions with 1,500 regions of 16 MiB each end at the same time: no other program waits until all is unmapped."""
        self.check_victim(lambda: self.attack("closings", ATTACKER, 2, 1_500, uid=0))

    def worker_thread(self):
        tasks = f"/proc/{self.daemon.process.pid}/task"
        for thread in os.listdir(tasks):
            with open(f"{tasks}/{thread}/comm", encoding="ascii") as name:
                if name.read().startswith("uroce-worker-"):
                    return f"{tasks}/{thread}/stat"
        self.fail("the daemon has no worker")

    def share_of_waits(self, stat):
        """Samples the thread during an attack; returns in what fraction it waited in the kernel."""
        looks = 0
        waits = 0
        end = time.monotonic() + ATTACK_SECONDS
        while time.monotonic() < end:
            with open(stat, encoding="ascii") as state:
                waits += state.read().rpartition(")")[2].split()[0] == "D"
            looks += 1
            time.sleep(_LOOK_SECONDS)
        return waits / looks
