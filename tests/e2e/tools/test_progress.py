"""Long work shows its progress: a bar on a terminal, lines elsewhere, and never mixed into standard output."""

import errno
import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import threading

from harness.case import E2eCase
from harness.programs import listens, start
from harness.process import wait_until
from harness.wires import free_tcp_port

_FRAMES = 2000
_BAR = r"\r\[#*-*\] +\d+ %, \d+ of "


class Progress(E2eCase):
    def setUp(self):
        super().setUp()
        self.capture = f"{self.folder}/frames.pcap"
        frame = bytes(12) + b"\x08\x00" + bytes(46)
        with open(self.capture, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            for i in range(_FRAMES):
                file.write(struct.pack("<IIII", i, 0, len(frame), len(frame)) + frame)

    def in_terminal(self, *arguments, daemon=None, prefix=()):
        """Returns standard output, and what a terminal gets as standard error."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        seen = []

        def read():
            try:
                while data := os.read(ours, 65536):
                    seen.append(data)
            except OSError as end:
                if end.errno != errno.EIO:
                    raise
        environment = {**os.environ, **({"UROCE_SOCKET": daemon.socket} if daemon else {}), "TERM": "xterm"}
        program = subprocess.Popen([*prefix, self.tree.uroce, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
                                   text=True, env=environment)
        os.close(theirs)
        reader = threading.Thread(target=read)
        reader.start()
        out = program.communicate(timeout=120)[0]
        reader.join()
        self.assertIn(program.returncode, (0, 1), b"".join(seen))
        text = b"".join(seen).decode(errors="replace")
        print(repr(text[:300]), flush=True)
        return out, text

    def expect_a_bar(self, text, what):
        self.assertRegex(text, _BAR + rf"\d+ {what}")
        self.assertTrue(text.endswith("\r\x1b[K"), "it is gone at the end")

    def test_check(self):
        out, text = self.in_terminal("check", "--json", self.capture)
        self.expect_a_bar(text, "frames")
        self.assertEqual(json.loads(out)["frames"], _FRAMES)

    def test_replay(self):
        out, text = self.in_terminal("replay", self.capture)
        self.expect_a_bar(text, "frames")
        self.assertNotIn("\x1b", out)

    def test_integrity(self):
        out, text = self.in_terminal("integrity", "--ops", "3000", daemon=self.wire("loopback").server.daemon)
        self.expect_a_bar(text, "operations")
        self.assertIn("3000 operations, 0 errors", out)

    def test_doctor_of_a_peer(self):
        wire, port = self.wire("loopback"), free_tcp_port()
        server = start(self, wire.server, [self.tree.uroce, "doctor", "--serve", "--port", port], "serve")
        wait_until(lambda: server.ended() or listens(wire.server.pid, port), 30, "the peer waits")
        out, text = self.in_terminal("doctor", wire.server.tcp_host, "--port", port, "--json", daemon=wire.client.daemon)
        self.expect_a_bar(text, "sizes of transfers")
        self.assertEqual(len(json.loads(out)["transfers"]), 6)
        server.expect_success(30)

    def test_nothing_of_short_work_elsewhere(self):
        for arguments in (("check", "--json", self.capture), ("replay", self.capture)):
            with self.subTest(arguments[0]):
                self.assertEqual(self.uroce(*arguments).stderr, "")
