"""A process that a case started. It is killed when the case ends, however that ends."""

import ctypes
import os
import signal
import subprocess
import time

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.01


# Ignored in whatever nohup or a shell starts in the background, which programs inherit.
_AS_IN_A_TERMINAL = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def restore_signals():
    """For a child, before it executes a program."""
    for number in _AS_IN_A_TERMINAL:
        signal.signal(number, signal.SIG_DFL)


def _before_exec():
    restore_signals()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class ProcessFailed(AssertionError):
    """The process ended otherwise than expected; says how, with the last lines of its output."""


class StillRuns(ProcessFailed):
    """The process didn't end in time."""


def wait_until(condition, seconds_max, what):
    """Polls the condition until it is true and returns its value; raises AssertionError on timeout."""
    deadline = time.monotonic() + seconds_max
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds_max} s")
        time.sleep(POLL_SECONDS)


def expect_success_while_moving(process, progress, still_seconds_max):
    """Waits for the process as long as progress() keeps changing: for programs that take longer on a busy machine."""
    before = progress()
    while not process.ended_within(still_seconds_max):
        now = progress()
        if now == before:
            raise ProcessFailed(f"{process.name} makes no progress for {still_seconds_max} s: {process.last_words()}; {now}")
        before = now
    return process.expect_success(0)


class Process:
    """Standard output and error go to files named after the process, in the case's log folder."""

    def __init__(self, command, name, logs, environment=None, **popen):
        self.name, self.command = name, [str(word) for word in command]
        self.out_path = os.path.join(logs, f"{name}.out")
        self.err_path = os.path.join(logs, f"{name}.err")
        with open(os.path.join(logs, "commands"), "a", encoding="utf-8") as commands:
            commands.write(f"{name}: {' '.join(self.command)}\n")
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            popen.setdefault("stdin", subprocess.DEVNULL)
            self._popen = subprocess.Popen(self.command, stdout=out, stderr=err, start_new_session=True,
                                           env={**os.environ, **(environment or {})},
                                           preexec_fn=_before_exec, **popen)
        self.pid = self._popen.pid

    @property
    def stdin(self):
        return self._popen.stdin

    def ended(self):
        return self._popen.poll() is not None

    def out(self):
        return _text(self.out_path)

    def err(self):
        return _text(self.err_path)

    def last_words(self):
        words = [line for line in (self.out() + self.err()).splitlines() if line.strip()]
        return " | ".join(words[-8:])[-700:] or "no output"

    def wait(self, seconds_max):
        """The exit code; negative: the signal that ended it."""
        try:
            return self._popen.wait(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            raise StillRuns(f"{self.name} still runs after {seconds_max} s: {self.last_words()}") from None

    def ended_within(self, seconds):
        try:
            self._popen.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def expect_success(self, seconds_max):
        code = self.wait(seconds_max)
        if code != 0:
            raise ProcessFailed(f"{self.name} ended with {code}: {self.last_words()}")
        return self.out()

    def expect_failure(self, seconds_max):
        """The process must exit with an error; death by a signal (a crash) fails the case."""
        code = self.wait(seconds_max)
        if code <= 0:
            raise ProcessFailed(f"{self.name} ended with {code}, not with an error: {self.last_words()}")
        return code

    def signal(self, number):
        if not self.ended():
            os.kill(self.pid, number)

    def kill(self):
        """kill -9 of the program itself, as an unlucky user would."""
        self.signal(signal.SIGKILL)
        self._popen.wait()

    def end(self):
        """For clean-up: kills its whole process group at once, also if it has ended and left children."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self._popen.wait()
        if self._popen.stdin:
            self._popen.stdin.close()


def _text(path):
    with open(path, encoding="utf-8", errors="replace") as text:
        return text.read()
