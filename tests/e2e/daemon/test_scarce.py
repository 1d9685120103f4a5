"""Scarce resources: few threads or descriptors, no /proc, a read-only /tmp, another user's folder where ours would be.
It works, or one sentence says what to do."""

import os
import resource
import socket

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.process import Process, ProcessFailed, wait_until
from harness.programs import run_pair
from harness.victim import as_user
from harness.wires import Endpoint

_THREADS_MAX = 32  # more than a daemon with one worker has
_USER = 61_240     # the kernel counts processes by user, so each case has a user of its own, from this number on
_BUILD = "/mnt"    # where the build is shown to what runs with mounts of its own


class Scarce(E2eCase):
    def setUp(self):
        super().setUp()
        self.need_root("limits and mounts of an ordinary user's are made for him")
        os.chmod(self.folder, 0o777)

    def _daemon(self, name, user, *limits):
        daemon = Daemon(self.tree, self.folder, self.logs, name, "loopback", "10.77.0.1/24",
                        prefix=[*as_user(user), "prlimit", *limits])
        self.addCleanup(daemon.end)
        return daemon

    def test_daemon_of_few_threads(self):
        """Whichever thread is the first that can't be created."""
        refused = 0
        for threads in range(1, _THREADS_MAX):
            try:
                self._daemon(f"threads-{threads}", _USER, f"--nproc={threads}").stop()
                break
            except ProcessFailed as failed:
                self.assertIn("there is no thread for", str(failed))
                self.assertNotIn("terminate called", str(failed))
                refused += 1
        self.assertGreaterEqual(refused, 5)
        self.assertLess(refused, _THREADS_MAX - 1)

    def test_daemon_of_little_memory(self):
        """However little there is: a message, not a failed assertion."""
        for limit in ("as", "data"):
            for mebibytes in (20, 32, 48, 64, 96):
                with self.subTest(f"{limit} {mebibytes}"):
                    try:
                        self._daemon(f"{limit}-{mebibytes}", _USER + 7, f"--{limit}={mebibytes << 20}").stop()
                    except ProcessFailed as failed:
                        self.assertRegex(str(failed), "ulimit -v, ulimit -d|error while loading shared libraries")

    def test_daemon_of_few_descriptors(self):
        with self.assertRaisesRegex(ProcessFailed, r"64 files open, which leaves too few for programs: let it have 1024"):
            self._daemon("few", _USER + 1, "--nofile=64")
        daemon = self._daemon("enough", _USER + 1, "--nofile=128")
        end = Endpoint(daemon, "10.77.0.1", "127.0.0.1", prefix=list(as_user(_USER + 1)))

        class OneEnd:
            server = client = end
            expect_running = staticmethod(daemon.expect_running)
        run_pair(self, OneEnd, "ibv_rc_pingpong", "-g", 1, "-c", "-n", 50)

    def _knock(self, daemon, times):
        """Connections that are all held. What became of them: None of one that is open, else what was said (nothing, if it was cut)."""
        knocks = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(times)]
        for knock in knocks:
            self.addCleanup(knock.close)
            knock.connect(daemon.socket)
        wait_until(lambda: self._answer(knocks[-1]) is not None, 30, "an answer to the last connection")
        return [self._answer(knock) for knock in knocks]

    def _answer(self, knock):
        try:
            return knock.recv(4096, socket.MSG_DONTWAIT | socket.MSG_PEEK).rstrip(b"\0")
        except BlockingIOError:
            return None

    def test_connections_leave_descriptors(self):
        """A program that connects again and again is refused with a sentence before the daemon has no descriptors left: each
        connection counts as the two that it takes."""
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "loopback", "10.77.0.1/24", prefix=["prlimit", "--nofile=512"])
        self.addCleanup(daemon.end)
        answers = [answer for answer in self._knock(daemon, 512) if answer is not None]
        self.assertTrue(answers)
        self.assertEqual([answer for answer in answers if b"descriptors" not in answer], [])
        self.assertNotIn("turned away", daemon.process.err())

    def test_turned_away_again_and_again(self):
        """The log has one line, also where there is a descriptor for the connection, and none for what tells of its program's end."""
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "loopback", "10.77.0.1/24")
        self.addCleanup(daemon.end)
        taken = {int(name) for name in os.listdir(f"/proc/{daemon.process.pid}/fd")}
        free = min(set(range(len(taken) + 1)) - taken)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (free + 1, resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)[1]))
        self.assertEqual(set(self._knock(daemon, 50)), {b""})
        self.assertEqual(daemon.process.err().count("turned away"), 1)

    def test_program_of_few_descriptors(self):
        """What it says itself is "Couldn't get context"."""
        os.chmod(self.folder, 0o755)
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "loopback", "10.77.0.1/24")
        self.addCleanup(daemon.end)
        process = Process([*as_user(_USER), "prlimit", "--nofile=8", "ibv_rc_pingpong", "-g", 1], "pingpong", self.logs, daemon.environment())
        process.expect_failure(30)
        self.assertIn("raise RLIMIT_NOFILE (ulimit -n)", process.err())

    def test_program_without_proc(self):
        os.chmod(self.folder, 0o755)
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "loopback", "10.77.0.1/24")
        self.addCleanup(daemon.end)
        for flags in ((), ("-o",)):
            with self.subTest(flags):
                process = self._mounted("mount -t tmpfs none /proc", [*as_user(_USER), "ibv_rc_pingpong", "-g", 1, *flags],
                                        environment=daemon.environment())
                process.expect_failure(30)
                self.assertIn("/proc must be mounted", process.err())

    def _mounted(self, mounts, command, behind="true", environment=None):
        """Runs the command with mounts of its own, and `behind` there if it has succeeded. The build is at _BUILD then:
        it may lie below /tmp, say, over which the test mounts something."""
        script = f'mount --bind "$0" {_BUILD} && {mounts} && "$@" && {behind}'
        command = [str(word).replace(self.tree.root, _BUILD) for word in command]
        process = Process(["unshare", "--mount", "sh", "-c", script, self.tree.root, *command], f"{self.next_number()}-mounted", self.logs,
                          {"UROCE_SOCKET": f"{self.folder}/none.sock", "XDG_RUNTIME_DIR": "", **(environment or {})}, cwd="/")
        self.addCleanup(process.end)
        return process

    def _run(self, user):
        return [*as_user(user), self.tree.uroce, "run", "--"]

    def test_run_where_tmp_cant_be_written_to(self):
        """A read-only container: `uroce run` puts its files into /dev/shm, and removes them."""
        process = self._mounted("mount -t tmpfs -o ro none /tmp && mount -t tmpfs -o mode=1777 none /dev/shm",
                                [*self._run(_USER + 2), "ibv_devinfo"],
                                'while [ -n "$(ls /dev/shm)" ]; do sleep 0.05; done')
        self.assertIn("PORT_ACTIVE", process.expect_success(60))
        self.assertNotIn("shows no card", process.err())

    def test_run_where_nothing_can_be_written_to(self):
        process = self._mounted("for at in /tmp /dev/shm /run; do mount -t tmpfs -o ro none $at || exit 1; done",
                                [*self._run(_USER + 2), "ibv_devinfo"])
        process.expect_failure(30)
        self.assertIn("let XDG_RUNTIME_DIR name a folder of yours", process.err())

    def test_run_where_another_has_its_folder(self):
        """Root of a user namespace, unprivileged outside, and whose /tmp/uroce-0 belongs to the real root."""
        process = self._mounted("mount -t tmpfs -o mode=1777 none /tmp && mkdir -m 700 /tmp/uroce-0",
                                [*as_user(_USER + 3), "unshare", "--user", "--map-root-user", self.tree.uroce, "run", "--", "ibv_devinfo"],
                                '[ "$(ls -A /tmp/uroce-0)" = "" ]')
        self.assertIn("PORT_ACTIVE", process.expect_success(60))

    def test_run_without_proc(self):
        process = self._mounted("mount -t tmpfs none /proc", [*self._run(_USER + 4), "true"])
        process.expect_failure(30)
        self.assertIn("/proc isn't mounted", process.err())

    def test_run_without_a_process(self):
        process = self._mounted("true", [*as_user(_USER + 5), "prlimit", "--nproc=1", self.tree.uroce, "run", "--", "true"])
        process.expect_failure(30)
        self.assertIn("can't start a process for the daemon", process.err())

    def test_run_says_that_its_daemon_was_killed(self):
        """As the kernel's OOM killer does; the files in its folder are removed."""
        folder = os.path.join(self.folder, "runtime")
        os.mkdir(folder, 0o700)
        os.chown(folder, _USER + 6, _USER + 6)
        process = self._mounted("true", [*self._run(_USER + 6), "sh", "-c", "kill -9 $(pgrep -P $PPID uroced)"],
                                environment={"XDG_RUNTIME_DIR": folder})
        process.expect_success(60)
        self.assertIn("its daemon was ended by signal 9", process.err())
        self.assertEqual([name for name in os.listdir(folder) if name.startswith("run-")], [])
