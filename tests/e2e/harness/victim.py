"""An honest program beside whatever a case does to the daemon, and users that aren't root."""

import json
import os
import subprocess

from .process import Process, wait_until

VICTIM, ATTACKER = 65533, 65534  # nobody's numbers but the tests'


def waited_for_processor(pid):
    """Seconds for which the threads of a process could have run and had no processor, so far: what a busy machine takes from it."""
    nanoseconds = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as figures:
                nanoseconds += int(figures.read().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    return nanoseconds / 1e9


def as_user(uid):
    return ("setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--inh-caps=-all", "--pdeathsig", "KILL")


class Victim:
    """An honest program; phase() says how it fared since the last call."""

    def __init__(self, case, daemon, *arguments):
        case.need_root("it runs as a user of its own, beside another's programs")
        self._process = Process([*as_user(VICTIM), case.tree.hostile_program("victim"), *arguments],
                                f"{case.next_number()}-victim", case.logs,
                                daemon.environment(), stdin=subprocess.PIPE)
        case.addCleanup(self._process.end)
        self._phases = 0
        wait_until(lambda: "begun" in self._process.out() or self._process.ended(), 30, "the victim's first WRITE")
        self.expect_running()

    @property
    def pid(self):
        return self._process.pid

    def expect_running(self):
        if self._process.ended():
            self._process.expect_success(0)

    def phase(self, name, seconds_max=60):
        """Ends the phase that is under way; returns what it was like."""
        self._process.stdin.write(f"{name}\n".encode())
        self._process.stdin.flush()
        self._phases += 1
        wait_until(lambda: self._process.out().count("\n") > self._phases or self._process.ended(), seconds_max,
                   f"the victim's word on {name}")
        self.expect_running()
        told = json.loads(self._process.out().splitlines()[self._phases])
        print(json.dumps(told), flush=True)
        return told
