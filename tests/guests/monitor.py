"""qemu's monitor (QMP): what happens to a guest's machine from outside, such as a cable that is pulled out."""

import json
import os
import socket

from harness.process import wait_until

_CONNECT_SECONDS_MAX = 30
_ANSWER_SECONDS_MAX = 30


class Monitor:
    """`arguments` are for qemu; connect() once it runs."""

    def __init__(self, folder):
        self._path = os.path.join(folder, "monitor.sock")
        self.arguments = ["-qmp", f"unix:{self._path},server=on,wait=off"]
        self._socket, self._lines = None, None

    def connect(self):
        self._socket = wait_until(self._connected, _CONNECT_SECONDS_MAX, "qemu's monitor")
        self._socket.settimeout(_ANSWER_SECONDS_MAX)
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self._lines.readline()  # its greeting
        self._execute("qmp_capabilities")

    def set_link(self, device, up):
        """Of the cable at a device, by its id."""
        self._execute("set_link", name=device, up=up)

    def end(self):
        if self._socket is not None:
            self._lines.close()
            self._socket.close()

    def _connected(self):
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self._path)
        except OSError:
            connection.close()
            return None
        return connection

    def _execute(self, command, **arguments):
        self._socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:  # events come in between
            line = self._lines.readline()
            assert line, f"qemu has ended before it answered {command}"
            answer = json.loads(line)
            if "error" in answer:
                raise AssertionError(f"qemu's {command}: {answer['error']['desc']}")
            if "return" in answer:
                return
