"""`uroce top`: as text, and in a terminal that is resized."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from harness.case import E2eCase
from harness.process import wait_until
from harness.programs import start_pair


class Top(E2eCase):
    def test_batch(self):
        wire = self.wire("loopback", "--direct", "off")  # frames, so that their bytes are counted
        server, client = start_pair(self, wire, "ib_write_bw", ("-x", "1", "-D", "8", "-s", "65536", "-F"))
        text = ""
        while not client.ended() and not re.search(r"RTS +ib_write_bw +\d+ +[\d.]+[kMG]", text):  # until a sample fell into the transfer
            text = self.uroce("top", "--batch", "--count", "2", "--interval", "0.3", daemon=wire.server.daemon).stdout
        print(text, flush=True)
        for words in ("PORT ", "WORKER ", "USER ", "SESSION ", "PROGRAM ", "LATENCY ", "uroce0     up", "RC  RTS   ib_write_bw"):
            self.assertIn(words, text)
        self.assertRegex(text, r"uroce0 +write +[\d.]+[kM]? +[\d.]+[um]s ")
        users = re.findall(rf"^{os.getuid()} +(\d+) +(\d+) ", text, re.MULTILINE)
        self.assertIn(("2", "2"), users, "two programs of one user, with a queue pair each")
        client.expect_success(60)
        server.expect_success(60)

    def test_a_limited_queue_pair_shows_its_rate(self):
        """A bottleneck of 50 Mb/s, which even a busy machine exceeds, marks frames, and the sender slows down."""
        wire = self.wire("veth", "--faults", "rate=50mbit,queue=4m,kmin=20k,kmax=80k,pmax=1")
        start_pair(self, wire, "ib_write_bw", ("-x", "1", "-D", "120", "-s", "65536", "-F"))  # until the case ends
        daemon = wire.client.daemon

        def shown():
            answer = self.uroce("top", "--batch", "--count", "1", "--interval", "0.3", "--sort", "limit", daemon=daemon)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertIn("queue pairs by: limit", answer.stdout)
            rows = answer.stdout[answer.stdout.index("QP   "):].splitlines()
            end = rows[0].index("LIMIT B/s") + len("LIMIT B/s")
            return rows[1][end - 9:end].strip() if len(rows) > 1 else ""

        def told():
            return [qp["rate_mbps"] for session in self.status(daemon)["sessions"] for qp in session["qps"] if qp["rate_mbps"]]

        self.assertRegex(wait_until(shown, 60, "a limit in top"), r"^[\d.]+[kMG]?$")
        wait_until(told, 60, "a limit in the status")

    def test_json(self):
        answer = self.uroce("top", "--json", "--count", "1", "--interval", "0.2", daemon=self.wire("loopback").server.daemon)
        sample = json.loads(answer.stdout)
        self.assertGreaterEqual(sample["seconds"], 0.2)
        self.assertEqual(sample["now"]["devices"][0]["name"], "uroce0")

    def test_an_unknown_order_is_refused(self):
        answer = self.uroce("top", "--batch", "--sort", "colour")
        self.assertNotEqual(answer.returncode, 0)
        for words in ("--sort", "colour", "sent", "outstanding", "limit"):
            self.assertIn(words, answer.stderr)

    def test_dumb_terminals_and_pipes_get_text(self):
        daemon = self.wire("loopback").server.daemon
        answer = self.uroce("top", "--count", "1", "--interval", "0.1", daemon=daemon)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("uroce0", answer.stdout)
        self.assertNotIn("\x1b", answer.stdout)

    def test_no_daemon(self):
        answer = self.uroce("top", "--batch", env={**os.environ, "UROCE_SOCKET": f"{self.folder}/none.sock"})
        self.assertEqual(answer.returncode, 1)
        self.assertIn("none.sock", answer.stderr)

    def test_in_a_terminal(self):
        daemon = self.wire("loopback").server.daemon
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
        top = subprocess.Popen([self.tree.uroce, "top", "--interval", "0.2"], stdin=theirs, stdout=theirs, stderr=theirs,
                               env={**os.environ, "UROCE_SOCKET": daemon.socket, "TERM": "xterm"})
        self.addCleanup(top.kill)
        os.close(theirs)
        seen = ""

        def read_until(words):
            nonlocal seen
            end = time.monotonic() + 20
            while words not in seen:
                self.assertLess(time.monotonic(), end, f"no {words!r} in {seen!r}")
                if select.select([ours], [], [], 0.5)[0]:
                    seen += os.read(ours, 65536).decode(errors="replace")
        read_until("space pause")
        for words in ("WORKER", "USER ", "LATENCY "):
            self.assertIn(words, seen)
        os.write(ours, b"ul")
        seen = ""
        os.write(ours, b">")
        read_until("received")
        daemon.stop()
        seen = ""
        read_until("THE DAEMON HAS ENDED")
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 20, 0, 0))  # and it keeps running
        os.write(ours, b" ")
        os.write(ours, b"q")
        self.assertEqual(top.wait(20), 0)
