"""A program that runs in a guest, with the methods of one that runs here (harness/process.py)."""

import os
import signal
import time

from harness.process import POLL_SECONDS, Process, ProcessFailed, StillRuns, wait_until

_ANSWER_SECONDS_MAX = 60


class GuestProcess(Process):
    """Its output goes to the case's log folder, which is the same in the guest."""

    def __init__(self, guest, command, name, logs, environment=None):
        # Not the base class's constructor, which starts a process here.
        self.name, self.command, self._guest, self._code = name, [str(word) for word in command], guest, None
        self.out_path, self.err_path = (os.path.join(logs, f"{name}.{kind}") for kind in ("out", "err"))
        with open(os.path.join(logs, "commands"), "a", encoding="utf-8") as commands:
            commands.write(f"{name}, in the guest: {' '.join(self.command)}\n")
        self._request = guest.ask(spawn=self.command, environment=environment or {}, out=self.out_path, err=self.err_path)
        answer = wait_until(lambda: self._come("pid"), _ANSWER_SECONDS_MAX, f"{name} started in the guest")
        if "error" in answer:
            raise ProcessFailed(f"{name}: {answer['error']}")
        self.pid = answer["pid"]

    def _come(self, key):
        answer = self._guest.answer(self._request, key)
        if answer is None:
            self._guest.expect_running()
        return answer

    def ended(self):
        if self._code is None:
            answer = self._come("ended")
            self._code = answer["ended"] if answer else None
        return self._code is not None

    def wait(self, seconds_max):
        if not self.ended_within(seconds_max):
            raise StillRuns(f"{self.name} still runs after {seconds_max} s: {self.last_words()}")
        return self._code

    def ended_within(self, seconds):
        deadline = time.monotonic() + seconds
        while not self.ended():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def signal(self, number):
        if not self.ended():
            self._guest.ask(signal=number, pid=self.pid)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.wait(_ANSWER_SECONDS_MAX)

    def end(self):
        """Its whole process group. It may have ended with its guest."""
        if self._guest.process.ended():
            return
        self._guest.ask(signal=signal.SIGKILL, pid=-self.pid)
        self.wait(_ANSWER_SECONDS_MAX)
