"""Runs in a guest as its first process, started by `init`: does what guest.py on the other side of a virtio-serial port asks.

Both sides send lines of JSON. A request has a number, "id", and one of these:
  "spawn": command, "environment", "out", "err"    answered by "pid" or "error", and later by "ended": exit code, or minus the signal
  "signal": number, "pid"                          (a negative pid: its process group) no answer
  "read": path                                     answered by "text" or "error"
The answer has the request's number. The first line, {"ready": release}, is the agent's.
"""

import glob
import json
import os
import select
import signal
import time

_PORT = "/dev/vport*p1"  # its number counts all virtio devices
_PORT_SECONDS_MAX = 30
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_READ_BYTES_MAX = 1 << 16
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Agent:
    def __init__(self, port):
        self._port, self._requests_of = port, {}  # pid: the request that started it
        self._children, children_write = os.pipe2(os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(children_write, warn_on_full_buffer=False)

    def serve(self):
        self._send({"ready": os.uname().release})
        waiting, pending = select.poll(), b""
        for descriptor in (self._port, self._children):
            waiting.register(descriptor, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in waiting.poll()]
            if self._children in ready:
                os.read(self._children, _READ_BYTES_MAX)
                self._reap()
            if self._port in ready:
                received = os.read(self._port, _READ_BYTES_MAX)
                if not received:
                    return  # qemu goes: the guest ends
                *lines, pending = (pending + received).split(b"\n")
                for line in lines:
                    self._answer(json.loads(line))

    def _answer(self, request):
        number = request["id"]
        try:
            if "spawn" in request:
                pid = _spawn(request)
                self._requests_of[pid] = number
                self._send({"id": number, "pid": pid})
            elif "signal" in request:
                os.kill(request["pid"], request["signal"])
            else:
                with open(request["read"], encoding="utf-8", errors="replace") as file:
                    self._send({"id": number, "text": file.read()})
        except ProcessLookupError:
            pass  # it has ended meanwhile, which is or will be told
        except OSError as refusal:
            self._send({"id": number, "error": str(refusal)})

    def _reap(self):
        """Also of orphans, whose parent the first process is."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._requests_of:
                self._send({"id": self._requests_of.pop(pid), "ended": os.waitstatus_to_exitcode(status)})

    def _send(self, answer):
        left = json.dumps(answer).encode() + b"\n"
        while left:
            left = left[os.write(self._port, left):]


def _spawn(request):
    """In a session of its own, so that what it starts can be ended with it."""
    files = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
             (os.POSIX_SPAWN_OPEN, 1, request["out"], _NEW_FILE, 0o644), (os.POSIX_SPAWN_OPEN, 2, request["err"], _NEW_FILE, 0o644)]
    return os.posix_spawnp(request["spawn"][0], request["spawn"], {**os.environ, **request["environment"]},
                           file_actions=files, setsid=True)


def main():
    os.environ.update({"PATH": _PATH, "HOME": "/root", "TERM": "dumb"})
    deadline = time.monotonic() + _PORT_SECONDS_MAX
    while not glob.glob(_PORT) and time.monotonic() < deadline:  # the kernel makes it when qemu has told of it
        time.sleep(0.01)
    Agent(os.open(glob.glob(_PORT)[0], os.O_RDWR)).serve()


if __name__ == "__main__":
    main()
