"""Exhausted or stopped machines: no memory, no descriptors, a full disk, a daemon that was stopped for a while."""

import os
import re
import signal
import subprocess
import time

from harness.process import Process, wait_until
from hostile_case import ATTACK_SECONDS, ATTACKER, HostileCase, Victim, as_user

# The errors that the victim may get while a resource is exhausted. Busy: without a descriptor the daemon can't tell whether a
# helper hangs or only waits for a processor.
_SHORT = ("Cannot allocate memory", "Too many open files", "Device or resource busy")
_SETTLE_SECONDS_MAX = 15
_REFUSED_SECONDS_MAX = 60  # on a machine whose processors others use too


class Machine(HostileCase):
    def limit(self, name, value):
        pid = self.daemon.process.pid
        self.run_checked("prlimit", "--pid", pid, f"--{name}={value}")

    def address_space(self):
        with open(f"/proc/{self.daemon.process.pid}/status", encoding="ascii") as lines:
            return 1024 * int(re.search(r"VmSize:\s+(\d+) kB", lines.read()).group(1))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.daemon.process.pid}/fd"))

    def run_checked(self, *command):
        subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL)

    def check_short(self, attack, name, value, refusal):
        """During the attack the victim's WRITEs go on, and its requests are answered, if with errors; afterwards all is as before.
        The attacker gets to the limit and is refused with `refusal`, a regular expression."""
        victim = Victim(self, self.daemon)
        victim.phase("start")
        self.let_pass(1)  # its threads and memory are there
        self.limit(name, value())
        process = self.attack(attack)
        wait_until(lambda: re.search(refusal, process.out()) or process.ended(), _REFUSED_SECONDS_MAX, "the attacker to be refused")
        self.let_pass(ATTACK_SECONDS)
        beside = victim.phase("beside")
        self.daemon.expect_running()
        self.expect_attacked()
        print(process.out(), flush=True)
        self.assertGreater(beside["writes"], 0)
        self.assertGreater(beside["answers"], 0)
        self.expect_answered(beside)
        for error in beside["errors"]:
            self.assertTrue(error.endswith(_SHORT), error)
        process.end()
        for _ in range(_SETTLE_SECONDS_MAX):  # helper threads of the attacker end after a second without work
            victim.phase("settle")
            self.let_pass(1)
            after = victim.phase("after")
            if not after["errors"]:
                break
        self.assertEqual(after["errors"], [])
        self.daemon.stop()

    def test_out_of_address_space(self):
        """The daemon can map 24 MiB more, no more: requests beyond that are refused with ENOMEM and a message."""
        self.check_short("queues", "as", lambda: self.address_space() + (24 << 20), "12 .*(memory|map)")

    def test_out_of_descriptors(self):
        self.check_short("channels", "nofile", lambda: self.descriptors() + 60, "24 .*Too many open files")

    def test_stopped_for_3_seconds(self):
        """Nothing is lost: the victim's WRITEs go on, and requests made meanwhile are answered."""
        victim = Victim(self, self.daemon)
        self.daemon.process.signal(signal.SIGSTOP)
        time.sleep(3)
        self.daemon.process.signal(signal.SIGCONT)
        self.let_pass(2)
        stopped = victim.phase("stopped")
        self.assertEqual(stopped["errors"], [])
        self.let_pass(1)
        after = victim.phase("after")
        self.assertEqual(after["errors"], [])
        self.assertGreater(after["writes"], 0)
        self.daemon.stop()

    def test_full_disk(self):
        """Memory on a disk that is full (a tmpfs of 1 MiB): registering all of it is refused, or the WRITE that finds no room fails."""
        for kind in ("pinned", "on-demand"):
            victim = Victim(self, self.daemon)
            full = os.path.join(self.folder, f"full-{kind}")
            os.mkdir(full)
            script = 'mount -t tmpfs -o size=1m,mode=777 none "$0" && exec "$@"'
            program = Process(["unshare", "--mount", "sh", "-c", script, full, *as_user(ATTACKER), self.tree.hostile_program("full_disk"),
                               os.path.join(full, "file"), kind], f"full-disk-{kind}", self.logs, self.daemon.environment())
            self.addCleanup(program.end)
            self.assertTrue(program.ended_within(30), "it was refused, or its WRITE failed")
            print(kind, program.out().splitlines()[-1:], program.err(), flush=True)
            self.assertRegex(program.out(), "^(refused|page 0)", program.err())
            self.assertNotIn("all written", program.out())
            self.daemon.expect_running()
            beside = victim.phase("beside")
            self.assertEqual(beside["errors"], [])
        self.assertIn("a full disk", self.uroce("errors", daemon=self.daemon).stdout)
        self.daemon.stop()
