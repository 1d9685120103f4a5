"""Signals sent to `uroce run` are meant for its command, also while a private daemon makes it wait for the command."""

import os
import pty
import signal
import sys

from harness.case import E2eCase
from harness.process import Process, restore_signals, wait_until

_SECONDS_MAX = 30
# Writes how often it got SIGHUP within a second of the first.
_COUNTER = """
import signal, sys, time
heard = []
signal.signal(signal.SIGHUP, lambda *_: heard.append(time.monotonic()))
with open(sys.argv[1], "w") as counts:
    while not heard or time.monotonic() < heard[0] + 1:
        time.sleep(0.01)
    counts.write(f"{len(heard)} SIGHUP\\n")
"""
# Makes three processes whose parent ends before them, and waits until they are gone, also as zombies.
_ORPHANS = """
import os, sys, time
read, write = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        if os.fork() == 0:
            os.write(write, f"{os.getpid()} ".encode())
            while os.getppid() != 1:
                time.sleep(0.01)
        os._exit(0)
    os.wait()
os.close(write)
orphans = b"".join(iter(lambda: os.read(read, 100), b"")).decode().split()
end = time.monotonic() + 20
while any(os.path.exists(f"/proc/{pid}") for pid in orphans):
    if time.monotonic() > end:
        sys.exit("they are left")
    time.sleep(0.05)
sys.exit(5 if len(orphans) == 3 else "they weren't made")
"""


class RunSignals(E2eCase):
    def test_process_one_waits_for_orphans(self):
        """As the first process of a container has to."""
        self.need_root("namespaces of processes")
        run = Process(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", self.tree.uroce, "run", "--no-tree", "--",
                       sys.executable, "-c", _ORPHANS], "process-one", self.logs, {"UROCE_SOCKET": f"{self.folder}/none.sock"})
        self.addCleanup(run.end)
        self.assertEqual(run.wait(_SECONDS_MAX), 5, run.err())

    def _expect_arrival(self, number, environment):
        name = number.name.removeprefix("SIG")
        run = Process([self.tree.uroce, "run", "--no-tree", "--", "sh", "-c",
                       f"trap 'exit 7' {name}; echo ready; while :; do sleep 0.1; done"], f"run-{name}", self.logs, environment)
        self.addCleanup(run.end)
        wait_until(lambda: "ready" in run.out() or run.ended(), _SECONDS_MAX, "the command")
        run.signal(number)
        self.assertEqual(run.wait(_SECONDS_MAX), 7, name)

    def test_signals_reach_the_command(self):
        running = {"UROCE_SOCKET": self.wire("loopback").server.daemon.socket}
        private = {"UROCE_SOCKET": os.path.join(self.folder, "none.sock")}
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            for environment in (running, private):
                with self.subTest(number.name):
                    self._expect_arrival(number, environment)

    def test_a_terminal_that_is_closed_is_told_once(self):
        """The shell, its session's leader, ends; then the kernel tells the command and `uroce run` alike."""
        counts, counter = os.path.join(self.folder, "counts"), os.path.join(self.folder, "counter.py")
        with open(counter, "w", encoding="utf-8") as program:
            program.write(_COUNTER)
        shell, terminal = pty.fork()
        if shell == 0:
            restore_signals()
            command = f"{self.tree.uroce} run --no-tree -- {sys.executable} {counter} {counts}; true"
            os.execve("/bin/sh", ["sh", "-c", command], {**os.environ, "UROCE_SOCKET": f"{self.folder}/none.sock"})
        self.addCleanup(os.waitpid, shell, 0)
        self.addCleanup(os.killpg, shell, signal.SIGKILL)  # a zombie's group exists until it is waited for
        with os.fdopen(terminal, "rb", buffering=0):
            wait_until(lambda: os.path.exists(counts), _SECONDS_MAX, "the command")
        wait_until(lambda: os.path.getsize(counts), _SECONDS_MAX, "its count")
        with open(counts, encoding="utf-8") as count:
            self.assertEqual(count.read(), "1 SIGHUP\n")

    def test_all_processes_are_ended(self):
        """As by systemctl stop: the card's files in the private folder go, too."""
        os.mkdir(f"{self.folder}/run", 0o700)
        run = Process([self.tree.uroce, "run", "--", "sh", "-c", "echo $UROCE_TREE; exec sleep 100"], "run", self.logs,
                      {"UROCE_SOCKET": f"{self.folder}/none.sock", "XDG_RUNTIME_DIR": f"{self.folder}/run"})
        self.addCleanup(run.end)
        wait_until(lambda: "tree-" in run.out() or run.ended(), _SECONDS_MAX, "the command")
        tree = os.path.basename(run.out().strip())
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as line:
                    ours = line.read().startswith(f"{self.tree.uroce}\0run\0".encode())
                with open(f"/proc/{pid}/environ", "rb") as variables:
                    ours = ours and f"XDG_RUNTIME_DIR={self.folder}/run\0".encode() in variables.read()
                if ours:
                    os.kill(int(pid), signal.SIGTERM)
            except OSError:
                continue
        run.wait(_SECONDS_MAX)
        wait_until(lambda: tree not in os.listdir(f"{self.folder}/run"), _SECONDS_MAX, "the tree's end")
