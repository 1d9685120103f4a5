"""Identifying the program whose memory is registered: PIDs are reused."""

import re
import subprocess

from hostile_case import ATTACKER, HostileCase, as_user


class Number(HostileCase):
    def test_another_with_the_number_is_left_alone(self):
        """The program that connected has ended, and another process of the same user has its PID."""
        program = self.tree.hostile_program("attack")
        attacker = self.begin("attacker", [*as_user(ATTACKER), program, "number"], stdin=subprocess.PIPE)
        number = re.search(r"number (\d+)", attacker.out()).group(1)
        holder = self.begin("holder", [program, "holder", number, ATTACKER])
        attacker.stdin.write(b"go\n")
        attacker.stdin.flush()
        attacker.expect_success(30)
        print(attacker.out())
        self.expect_attacking(holder)
        self.assertIn("refused: ", attacker.out())
        self.assertIn("has ended", attacker.out())
