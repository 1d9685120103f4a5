"""An honest program beside whatever a case does to the daemon, and users that aren't root."""

import json
import os
import subprocess

from .process import Process, wait_until

VICTIM, ATTACKER = 65533, 65534  # user ids that only the tests use


class WaitsForProcessor:
    """How long the threads of some processes were runnable without a processor (run delay), on a busy machine."""

    def __init__(self, *pids, main_of=()):
        """Watches all threads of `pids`, and the main threads of `main_of`."""
        self._pids, self._main_of = pids, main_of
        self._seen = self.now()

    def now(self):
        """Run delay of each thread so far, in seconds."""
        tasks = [f"/proc/{pid}/task/{pid}" for pid in self._main_of]
        for pid in self._pids:
            tasks += [f"/proc/{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task")]
        waits = {}
        for task in tasks:
            try:
                with open(f"{task}/schedstat", encoding="ascii") as figures:
                    waits[task] = int(figures.read().split()[1]) / 1e9
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
        return waits

    def since_last_time(self):
        """Run delay of all threads that still exist, in seconds, since the last call."""
        before, self._seen = self._seen, self.now()
        return sum(seconds - before.get(task, 0) for task, seconds in self._seen.items())


def as_user(uid):
    return ("setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--inh-caps=-all", "--pdeathsig", "KILL")


class Victim:
    """An honest program; phase() returns its measurements since the last call."""

    def __init__(self, case, daemon, *arguments):
        case.need_root("it runs as a user of its own, beside another's programs")
        self._process = Process([*as_user(VICTIM), case.tree.hostile_program("victim"), *arguments],
                                f"{case.next_number()}-victim", case.logs,
                                daemon.environment(), stdin=subprocess.PIPE)
        case.addCleanup(self._process.end)
        self._phases = 0
        wait_until(lambda: "begun" in self._process.out() or self._process.ended(), 30, "the victim's first WRITE")
        self.expect_running()
        self._waits = WaitsForProcessor(self.pid, main_of=[daemon.process.pid])

    @property
    def pid(self):
        return self._process.pid

    def expect_running(self):
        if self._process.ended():
            self._process.expect_success(0)

    def phase(self, name, seconds_max=60):
        """Ends the current phase and returns its measurements. "waited_s": how long the program, or the daemon's thread that
        answers it, waited for a processor."""
        self._process.stdin.write(f"{name}\n".encode())
        self._process.stdin.flush()
        self._phases += 1
        wait_until(lambda: self._process.out().count("\n") > self._phases or self._process.ended(), seconds_max,
                   f"the victim's report of {name}")
        self.expect_running()
        told = json.loads(self._process.out().splitlines()[self._phases])
        told["waited_s"] = self._waits.since_last_time()
        print(json.dumps(told), flush=True)
        return told
