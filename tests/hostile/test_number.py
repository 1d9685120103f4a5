"""Whose memory it is: a process number outlives its process."""

import re
import subprocess

from harness.process import Process, wait_until
from hostile_case import ATTACKER, HostileCase, as_user


class Number(HostileCase):
    def _start(self, label, *words, **popen):
        process = Process([*words[:-1], self.tree.hostile_program("attack"), *words[-1]], label, self.logs,
                          self.daemon.environment(), cwd=self.folder, **popen)
        self.addCleanup(process.end)
        wait_until(lambda: "attacking" in process.out() or process.ended(), 60, f"{label} to begin")
        if process.ended():
            process.expect_success(0)
        return process

    def test_another_with_the_number_is_left_alone(self):
        """The program that connected has ended, and a process of the same user has its number."""
        attacker = self._start("attacker", *as_user(ATTACKER), ["number"], stdin=subprocess.PIPE)
        number = re.search(r"number (\d+)", attacker.out()).group(1)
        self._start("holder", ["holder", number, str(ATTACKER)])
        attacker.stdin.write(b"go\n")
        attacker.stdin.flush()
        attacker.expect_success(30)
        print(attacker.out())
        self.assertIn("refused: ", attacker.out())
        self.assertIn("has ended", attacker.out())
