"""Memory that its program holds back, or takes away while it is written to."""

import os
import time

from hostile_case import ATTACK_SECONDS, ATTACKER, HostileCase

_PUNCHED_MIB = 256
_PUNCHERS = 10
_NOTICED_SECONDS = 1  # who is to blame isn't known at once
_LOOK_SECONDS = 0.005
_WAITS_MAX = 0.4  # 1/32 is what the user gets in the long run; what he got in advance counts, too


class Memory(HostileCase):
    def test_written_to_pages_that_never_come(self):
        """The card is to write to a page of a file system (FUSE) that doesn't answer."""
        self.check_victim(lambda: self.attack("memory", "write", ATTACKER, uid=0))

    def test_read_pages_that_never_come(self):
        """The card is to read it."""
        self.check_victim(lambda: self.attack("memory", "read", ATTACKER, uid=0))

    def test_punched_file(self):
        """All pages of files are punched out, over and over, while the card writes to them: the worker waits for the kernel,
        and its user pays for that."""
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
        """A region of 2,000 pieces of 16 MiB, which the daemon maps: it doesn't bring all of them in at one stroke."""
        self.check_victim(lambda: self.attack("pieces", ATTACKER, 2_000, uid=0))

    def test_closing_sessions(self):
        """Two sessions with 1,500 regions of 16 MiB each end together: nobody waits until all is unmapped."""
        self.check_victim(lambda: self.attack("closings", ATTACKER, 2, 1_500, uid=0))

    def worker_thread(self):
        tasks = f"/proc/{self.daemon.process.pid}/task"
        for thread in os.listdir(tasks):
            with open(f"{tasks}/{thread}/comm", encoding="ascii") as name:
                if name.read().startswith("uroce-worker-"):
                    return f"{tasks}/{thread}/stat"
        self.fail("the daemon has no worker")

    def share_of_waits(self, stat):
        """How often the kernel keeps the thread, of many looks in the time that an attack has."""
        looks = 0
        waits = 0
        end = time.monotonic() + ATTACK_SECONDS
        while time.monotonic() < end:
            with open(stat, encoding="ascii") as state:
                waits += state.read().rpartition(")")[2].split()[0] == "D"
            looks += 1
            time.sleep(_LOOK_SECONDS)
        return waits / looks
