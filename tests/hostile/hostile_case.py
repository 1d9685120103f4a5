"""The base class of the hostile cases: a daemon of root's, a victim, and attackers of another user."""

import os

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.process import Process, ProcessFailed, wait_until
from harness.victim import ATTACKER, Victim, as_user

ALONE_SECONDS = 2
ATTACK_SECONDS = 5
# One second is promised; other tests and compilers share the two processors, so the run delay of the victim and of the
# thread that answers it is added. The bugs that this finds took five seconds and more.
ANSWER_SECONDS_MAX = 2.0
# A WRITE beside an attack may take that many times as long as beside a process that only uses the processor, ...
P99_FACTOR = 5
# ... but a few time slices aren't the daemon's fault on a machine that other tests share.
P99_US_FLOOR = 30_000
_GAVE_UP = "gave up: "  # how attack's give_up() begins; an attack may be several processes


class HostileCase(E2eCase):
    def setUp(self):
        super().setUp()
        self.need_root("the victim and its attackers are different users, neither the daemon's")
        os.chmod(self.folder, 0o777)
        self.attacks = []  # attacks that run until they are ended
        self.daemon = self.start_daemon()

    def start_daemon(self):
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "loopback", "10.77.0.1/24")
        self.addCleanup(daemon.end)
        return daemon

    def begin(self, label, command, **popen):
        """Returns when the program reports "attacking"; it ends with the case, or by itself."""
        process = Process(command, label, self.logs, self.daemon.environment(), cwd=self.folder, **popen)
        self.addCleanup(process.end)
        wait_until(lambda: "attacking" in process.out() or process.ended(), 60, f"{label} to begin")
        self.expect_attacking(process)
        return process

    def attack(self, name, *arguments, uid=ATTACKER, prefix=()):
        """Returns when the attack is under way; it must run until the case ends it."""
        process = self.begin(f"{self.next_number()}-{name}",
                             [*prefix, *as_user(uid), self.tree.hostile_program("attack"), name, *arguments])
        self.attacks.append(process)
        return process

    def expect_attacking(self, process):
        """An attacker that crashed, or was refused what it needs, fails the case."""
        if process.ended():
            raise ProcessFailed(f"{process.name} stopped attacking: it ended with {process.wait(0)}: {process.last_words()}")
        gave_up = [line for line in process.err().splitlines() if line.startswith(_GAVE_UP)]
        self.assertEqual(gave_up, [], f"{process.name}: the part of it that stopped attacking")

    def let_pass(self, seconds):
        """Lets everything run for that long; the daemon must stay alive."""
        if self.daemon.process.ended_within(seconds):
            self.daemon.expect_running()

    def check_victim(self, attack, victim_arguments=(), set_up_counts=True):
        """The contract: `attack()` starts an attack; the victim is answered in time, its WRITEs go on and its
        objects can be made. The victim's errors while the attack is being set up count, unless that would hide the rest."""
        victim = Victim(self, self.daemon, *victim_arguments)
        busy = Process([*as_user(ATTACKER), "/bin/sh", "-c", "while :; do :; done"], "busy", self.logs)
        self.addCleanup(busy.end)
        victim.phase("start")
        self.let_pass(ALONE_SECONDS)
        alone = victim.phase("alone")
        busy.end()
        attack()
        if not set_up_counts:
            victim.phase("set up")
        self.let_pass(ATTACK_SECONDS)
        beside = victim.phase("beside")
        self.expect_unharmed(alone, beside)

    def expect_attacked(self):
        """Checks that the attacks ran the whole time."""
        self.assertTrue(self.attacks, "nothing attacked")
        for process in self.attacks:
            self.expect_attacking(process)

    def expect_answered(self, beside):
        self.assertLess(beside["answer_max_ms"] / 1000, ANSWER_SECONDS_MAX + beside["waited_s"])

    def expect_unharmed(self, alone, beside):
        self.daemon.expect_running()
        self.expect_attacked()
        self.assertEqual(beside["errors"], [], "the victim's errors")
        self.expect_answered(beside)
        self.assertGreater(beside["answers"], 0)
        self.assertGreater(beside["writes"], 0)
        self.assertLess(beside["write_p99_us"], max(P99_US_FLOOR, P99_FACTOR * alone["write_p99_us"]))
