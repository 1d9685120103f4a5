"""The privileges that a started daemon keeps, and what SIGHUP reloads."""

import glob
import os
import re
import resource
import shutil
import signal

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.process import Process, wait_until
from harness.programs import run_pair
from harness.victim import VICTIM, as_user
from harness.wires import Endpoint

_ORDINARY = as_user(VICTIM)


def _fields(task, *names):
    with open(f"{task}/status", encoding="ascii") as lines:
        status = lines.read()
    return [re.search(rf"^{name}:\s+(\w+)$", status, re.MULTILINE).group(1) for name in names]


class Rights(E2eCase):
    def setUp(self):
        super().setUp()
        self.need_root("the daemon gives up what only root has, and serves other users")

    def _daemon(self, port, *arguments, **popen):
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", port, "10.77.0.1/24", arguments, **popen)
        self.addCleanup(daemon.end)
        return daemon

    def _tasks(self, daemon):
        return glob.glob(f"/proc/{daemon.process.pid}/task/*")

    def test_user_namespace_takes_roots_daemon(self):
        """Inside, the kernel shows root as the overflow user. /run is the test's own mount."""
        script = """
            unset UROCE_SOCKET
            mount -t tmpfs -o mode=755 tmpfs /run && mkdir -m 755 /run/uroce && mkfifo /run/ready || exit 1
            "$1/apps/uroced" --port loopback --ip 10.77.0.1/24 --ready-fd 3 3>/run/ready & daemon=$!
            head -c 1 /run/ready >/run/started
            setpriv --reuid 1234 --regid 1234 --clear-groups unshare --user --map-root-user \
                "$1/apps/uroce" run --no-tree -- ibv_devinfo
            outcome=$?
            kill "$daemon"; wait "$daemon"
            exit $outcome"""
        process = Process(["unshare", "--mount", "timeout", "60", "bash", "-c", script, "bash", self.tree.root], "namespace", self.logs, cwd="/")
        self.addCleanup(process.end)
        self.assertIn("PORT_ACTIVE", process.expect_success(90))

    def _expect_lack(self, name, start, port, folder, lack):
        """A daemon that is started so ends, says what it hasn't the rights for, and isn't to be started again (EX_CONFIG)."""
        daemon = Process([*start, *self.tree.uroced, "--socket", f"{folder}/x.sock", "--ip", "10.77.0.1/24", "--port", port], name, self.logs,
                         {**os.environ, "XDG_RUNTIME_DIR": folder})
        self.addCleanup(daemon.end)
        self.assertEqual(daemon.expect_failure(30), os.EX_CONFIG)
        self.assertIn(f"uroced lacks {lack}, which its systemd unit or its container must give it", daemon.err())

    def test_a_packet_port_without_them(self):
        folder = f"{self.folder}/theirs"
        os.mkdir(folder)
        os.chown(folder, VICTIM, VICTIM)
        os.chmod(self.folder, 0o755)
        self._expect_lack("without-right", _ORDINARY, "net_af_packet0,iface=lo", folder, "CAP_NET_RAW")

    def test_an_xdp_port_with_those_of_the_systemd_unit(self):
        self._expect_lack("without-admin", ["setpriv", "--bounding-set=-sys_admin"], "net_af_xdp0,iface=lo", self.folder, "CAP_SYS_ADMIN")

    def test_metrics_at_a_privileged_port(self):
        with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", encoding="ascii") as first:
            if int(first.read()) < 1024:
                self.skipTest("such ports aren't privileged here")
        daemon = Process(["setpriv", "--bounding-set=-net_bind_service", *self.tree.uroced, "--socket", f"{self.folder}/x.sock", "--port", "loopback",
                          "--ip", "10.77.0.1/24", "--metrics", "127.0.0.1:1023"], "uroced", self.logs)
        self.addCleanup(daemon.end)
        self.assertEqual(daemon.expect_failure(30), os.EX_CONFIG)
        self.assertIn("--metrics 127.0.0.1:1023: can't be listened on: Permission denied; ports below 1024 take CAP_NET_BIND_SERVICE", daemon.err())

    def test_of_one_user_there_are_none(self):
        """Root's daemon for root's programs, on loopback: no capability in any thread, and no way to regain one."""
        daemon = self._daemon("loopback", "--socket-mode", "0600")
        tasks = self._tasks(daemon)
        self.assertGreaterEqual(len(tasks), 5)
        for task in tasks:
            self.assertEqual(_fields(task, "CapEff", "CapPrm", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp"),
                             [*["0" * 16] * 4, "1", "2"], task)

    def test_threads_that_cant_be_listed(self):
        """Without /proc the daemon couldn't make its threads drop their capabilities, so it doesn't start."""
        script = 'mount -t tmpfs none /proc && exec "$@"'
        process = Process(["unshare", "--mount", "sh", "-c", script, "sh", *self.tree.uroced, "--port", "loopback", "--ip", "10.77.0.1/24",
                           "--socket", f"{self.folder}/uroced.sock"], "uroced", self.logs)
        self.addCleanup(process.end)
        process.expect_failure(30)
        self.assertIn("/proc must be mounted", process.err())

    def test_started_with_all_signals_blocked(self):
        """Some launchers do so: its threads still get the signal to drop capabilities, and SIGTERM ends it."""
        daemon = self._daemon("loopback", prefix=["env", "--block-signal"])
        self.assertEqual(_fields(f"/proc/{daemon.process.pid}", "NoNewPrivs"), ["1"])
        daemon.stop()

    def test_for_other_users_it_keeps_what_their_memory_takes(self):
        daemon = self._daemon("loopback")
        for task in self._tasks(daemon):
            kept = int(_fields(task, "CapPrm")[0], 16)
            # DAC_OVERRIDE, SYS_PTRACE, SYS_RESOURCE, CHECKPOINT_RESTORE
            self.assertEqual(kept & ~(1 << 1 | 1 << 19 | 1 << 24 | 1 << 40), 0, hex(kept))
            self.assertTrue(kept & 1 << 19, hex(kept))

    def test_too_little_memory_may_be_locked(self):
        """The program itself prints ENOMEM at most; the shim prints once what to do, without UROCE_DEBUG."""
        os.chmod(self.folder, 0o755)
        daemon = self._daemon("loopback")
        process = Process([*_ORDINARY, "prlimit", "--memlock=65536", "ibv_rc_pingpong", "-d", "uroce0", "-g", 1, "-s", 1 << 20],
                          "pingpong", self.logs, daemon.environment())
        process.expect_failure(30)
        self.assertIn("uroce: ibv_reg_mr: RLIMIT_MEMLOCK allows 64 KiB", process.err())
        self.assertIn("raise it (ulimit -l", process.err())

    def test_other_users_are_served_all_the_same(self):
        """Shared memory, and memory accessed by copying."""
        os.chmod(self.folder, 0o755)
        daemon = self._daemon("loopback")
        end = Endpoint(daemon, "10.77.0.1", "127.0.0.1", prefix=list(_ORDINARY))

        class OneEnd:
            server = client = end
            expect_running = staticmethod(daemon.expect_running)
        run_pair(self, OneEnd, "ibv_rc_pingpong", "-g", 1, "-c", "-n", 50)
        os.environ["UROCE_MEMORY"] = "copy"
        self.addCleanup(os.environ.pop, "UROCE_MEMORY", None)
        run_pair(self, OneEnd, "ibv_rc_pingpong", "-g", 1, "-c", "-n", 50)
        run_pair(self, OneEnd, "ib_write_bw", "-x", 1, "-F", "-s", 65536, "-n", 100)
        daemon.stop()
        self.assertNotIn("isn't on its list of allowed calls", daemon.process.err())

    def test_limit_of_file_sizes(self):
        """`ulimit -f` doesn't kill the daemon by SIGXFSZ: what is too large is refused with a message."""
        small = (1_024, 1_024)
        answer = self.uroce("run", "--", "ibv_devinfo", "-v", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, small),
                            env={"PATH": os.environ["PATH"]})
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertIn("File too large", answer.stderr)

    def test_an_ordinary_users_dpdk_is_in_his_own_folder(self):
        """Not in /tmp/dpdk, which another user can have made first."""
        os.chmod(self.folder, 0o777)
        user = 61_235
        self.addCleanup(shutil.rmtree, f"/tmp/uroce-{user}", ignore_errors=True)
        daemon = self._daemon("net_null0", user=user, group=user, extra_groups=[], cwd="/",
                              environment={"XDG_RUNTIME_DIR": ""})
        self.assertTrue(os.path.isdir(f"/tmp/uroce-{user}/dpdk/uroce-{daemon.process.pid}"))
        daemon.stop()
        self.assertEqual(os.listdir(f"/tmp/uroce-{user}/dpdk"), [])

    def test_folders_of_dead_daemons_go(self):
        """A killed daemon leaves /var/run/dpdk/uroce-PID; the next one removes it, and its own when it ends."""
        killed = self._daemon("net_null0")
        left = f"/var/run/dpdk/uroce-{killed.process.pid}"
        self.assertTrue(os.path.isdir(left))
        killed.process.signal(signal.SIGKILL)
        killed.process.wait(15)
        os.unlink(killed.socket)  # the folder still exists, unless another case's daemon has started since
        next_one = self._daemon("net_null0")
        self.assertFalse(os.path.exists(left))
        own = f"/var/run/dpdk/uroce-{next_one.process.pid}"
        self.assertTrue(os.path.isdir(own))
        next_one.stop()
        self.assertFalse(os.path.exists(own))


class Reload(E2eCase):
    def _write(self, text):
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)

    def setUp(self):
        super().setUp()
        self.config = f"{self.folder}/uroce.toml"
        self._write('log-level = "warning"\n[[port]]\nport = "loopback"\nip = "10.88.0.1/24"\nfaults = "loss=0.5,seed=1"\n')
        self.socket = f"{self.folder}/reload.sock"
        self.daemon_process = Process([*self.tree.uroced, "--config", self.config, "--socket", self.socket], "uroced",
                                      self.logs)
        self.addCleanup(self.daemon_process.end)
        wait_until(lambda: "10.88.0.1" in self._status() or self.daemon_process.ended(), 30, "the daemon's answer")
        self.assertFalse(self.daemon_process.ended(), self.daemon_process.err())

    def _hang_up(self, text, says):
        self._write(text)
        before = self.daemon_process.err().count(says)
        self.daemon_process.signal(signal.SIGHUP)
        wait_until(lambda: self.daemon_process.err().count(says) > before or self.daemon_process.ended(), 30, says)
        self.assertFalse(self.daemon_process.ended(), self.daemon_process.err())

    def _status(self):
        return self.uroce("status", env={**os.environ, "UROCE_SOCKET": self.socket}).stdout

    def test_what_changes_at_run_time(self):
        self.assertIn("10.88.0.1", self._status())
        self._hang_up('log-level = "info"\nworkers = 2\n[[port]]\nport = "loopback"\nip = ["10.88.0.2/24", "10.88.0.3/24"]\n'
                      'faults = "loss=0.001,seed=2"\n', "10.88.0.1/24 is removed")
        for line in ("10.88.0.2/24 is added", "10.88.0.3/24 is added", "log-level: info", "faults: loss=0.001",
                     "workers: takes effect only after a restart"):  # one after the other
            wait_until(lambda line=line: line in self.daemon_process.err(), 30, line)
        status = self._status()
        self.assertNotIn("10.88.0.1", status)
        self.assertIn("10.88.0.3", status)
        self._hang_up('log-level = "info"\n[[port]]\nport = "loopback"\nip = ["10.88.0.2/24", "10.88.0.3/24"]\n'
                      'faults = "loss=0.001,seed=2"\n', "nothing changed")
        self._hang_up('log-level = "info"\n[limits]\npds = 5\n[[port]]\nport = "loopback"\nip = ["10.88.0.2/24", "10.88.0.3/24"]\n'
                      'faults = "loss=0.001,seed=2"\n', "limits: in force for new objects")

    def test_what_only_a_new_start_takes_is_named(self):
        port = '[[port]]\nport = "loopback"\nip = "10.88.0.1/24"\nfaults = "loss=0.5,seed=1"\n'
        self._hang_up(f'log-level = "warning"\n{port}mtu = 4200\ninterface = "uroce7"\n', "interface: takes effect only after a restart")
        self.assertIn("uroce0: mtu: takes effect only after a restart", self.daemon_process.err())
        self.assertNotIn("the kind of ports", self.daemon_process.err())
        self._hang_up(f'log-level = "warning"\n{port}[[port]]\nport = "loopback"\nip = "10.88.1.1/24"\n', "the number or the kind of ports: takes effect only")

    def test_a_new_log_level_hides_neither_its_own_reload_nor_broken_files(self):
        port = '[[port]]\nport = "loopback"\nip = "10.88.0.1/24"\nfaults = "loss=0.5,seed=1"\n'
        self._hang_up(f'log-level = "off"\n{port}', "log-level: off from now on")
        self._hang_up("[[port", "nothing is changed")
        self._hang_up("prot", "nothing is changed")
        self._hang_up(f'log-level = "info"\n{port}', "log-level: info from now on")
        self._hang_up(f'log-level = "error"\n{port}', "log-level: error from now on")
        self._hang_up("[[port", "nothing is changed")

    def test_broken_file_changes_nothing(self):
        for text in ('[[port]]\nport = "loopback"\nip = "10.88.0.300/24"\n', "[[port", 'nonsense = 3\n', ""):
            with self.subTest(text):
                self._hang_up(text, "nothing is changed")
                self.assertIn("10.88.0.1", self._status())
        os.unlink(self.config)
        self.daemon_process.signal(signal.SIGHUP)
        wait_until(lambda: self.daemon_process.err().count("nothing is changed") == 5, 30, "the missing file is noticed")
        self.assertIn("10.88.0.1", self._status())
