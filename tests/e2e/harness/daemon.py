"""A running uroced with a socket of its own."""

import contextlib
import json
import os
import signal
import subprocess

from .process import Process, ProcessFailed, wait_until

START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 15


class Daemon:
    """`folder` is a short temporary one (socket paths are limited to 107 bytes), `logs` the case's."""

    def __init__(self, tree, folder, logs, name, port, ip, arguments=(), prefix=(), **popen):
        self.tree, self.name = tree, name
        self.socket = os.path.join(folder, f"{name}.sock")
        ready, ready_write = os.pipe()
        try:
            self.process = Process(
                [*prefix, *tree.uroced, "--port", port, *ip_flags(ip), "--socket", self.socket,
                 "--ready-fd", ready_write, *arguments],
                name, logs, pass_fds=(ready_write,), **popen)
        finally:
            os.close(ready_write)
        try:
            wait_until(lambda: self._is_ready(ready), START_SECONDS_MAX, f"{name} ready")
        finally:
            os.close(ready)

    def _is_ready(self, ready):
        os.set_blocking(ready, False)
        try:
            if os.read(ready, 1):
                return True
        except BlockingIOError:
            return False
        code = self.process.wait(STOP_SECONDS_MAX)  # it closed the pipe without writing to it
        raise ProcessFailed(f"{self.name} did not start ({code}): {self.process.last_words()}")

    def environment(self):
        """What makes a program use this daemon."""
        return {**self.tree.program_environment(), "UROCE_SOCKET": self.socket}

    def as_owner(self):
        """Options of subprocess.run: root's tools don't talk to an ordinary user's daemon, so they run as that user."""
        owner = os.stat(self.socket)
        return {} if owner.st_uid == os.getuid() else {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}

    def expect_running(self):
        if self.process.ended():
            raise ProcessFailed(f"{self.name} ended: {self.process.last_words()}")

    def stop(self):
        """Sends SIGTERM, as a user would; the daemon must exit cleanly."""
        self.process.signal(signal.SIGTERM)
        code = self.process.wait(STOP_SECONDS_MAX)
        if code != 0:
            raise ProcessFailed(f"{self.name} ended with {code} after SIGTERM: {self.process.last_words()}")
        refused = [line for line in self.process.err().splitlines() if "which isn't on its list of allowed calls" in line]
        if refused:
            raise ProcessFailed(f"{self.name} made system calls that aren't listed: {refused}")

    def _status(self, out):
        return subprocess.run([self.tree.uroce, "status", "--json"], stdout=out, timeout=5, check=False,
                              env={**os.environ, "UROCE_SOCKET": self.socket}, stdin=subprocess.DEVNULL,
                              **self.as_owner())

    def link_is_up(self):
        """Whether its first device's link is up. False also if it doesn't answer in time, as on a busy machine."""
        self.expect_running()
        with contextlib.suppress(subprocess.TimeoutExpired):
            answer = self._status(subprocess.PIPE)
            return answer.returncode == 0 and json.loads(answer.stdout)["devices"][0]["link"] == "up"
        return False

    def keep_status(self, logs):
        """Writes its status report beside the logs, to analyse failures."""
        if self.process.ended():
            return
        with open(os.path.join(logs, f"{self.name}.status"), "w", encoding="utf-8") as out:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._status(out)

    def end(self):
        self.process.end()


def ip_flags(ip):
    return [word for address in ([ip] if isinstance(ip, str) else ip) for word in ("--ip", address)]
