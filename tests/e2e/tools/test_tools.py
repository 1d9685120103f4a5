"""uroce, uroced's flags, and programs that find no daemon."""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading

from harness.case import E2eCase
from harness.places import ROOT
from harness.process import Process, wait_until
from harness.programs import run_pair
from harness.wires import free_tcp_port

_NOBODY = 65534


class WithoutDaemon(E2eCase):
    def _devices(self, **variables):
        environment = {**os.environ, **self.tree.program_environment(),
                       "UROCE_SOCKET": f"{self.folder}/none.sock", **variables}
        return subprocess.run(["ibv_devices"], env=environment, capture_output=True, text=True, timeout=30,
                              check=False)

    def test_empty_list_and_one_line(self):
        answer = self._devices()
        self.assertNotIn("uroce0", answer.stdout)
        self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
        self.assertIn(f"{self.folder}/none.sock", answer.stderr)

    def test_silenced(self):
        self.assertEqual(self._devices(UROCE_QUIET="1").stderr, "")


class Devices(E2eCase):
    def test_devinfo(self):
        wire = self.wire("loopback")
        environment = {**os.environ, **wire.server.environment()}
        answer = subprocess.run(["ibv_devinfo", "-v"], env=environment, capture_output=True, text=True,
                                timeout=30, check=False)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for text in ("uroce0", "PORT_ACTIVE", "Ethernet", "10.77.0.1", "RoCE v2"):
            self.assertIn(text, answer.stdout)
        wire.stop()


class Run(E2eCase):
    def test_private_daemon_for_an_ordinary_user(self):
        """No daemon answers: `uroce run` starts a private loopback one, without root or huge pages."""
        os.chmod(self.folder, 0o777)
        answer = self.uroce("run", "--", "ibv_devinfo", user=_NOBODY, group=_NOBODY, extra_groups=[],
                            cwd="/", env={"PATH": os.environ["PATH"], "TMPDIR": self.folder, "HOME": "/nonexistent"})
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("PORT_ACTIVE", answer.stdout)

    def test_private_daemon_carries_data(self):
        script = ("ibv_rc_pingpong -g 1 -c -n 100 -p $PORT >/dev/null & server=$!; "
                  "until ibv_rc_pingpong -g 1 -c -n 100 -p $PORT 127.0.0.1; do "
                  "kill -0 $server || exit 1; done; wait $server")
        answer = self.uroce("run", "--", "bash", "-c", script,
                            env={"PATH": os.environ["PATH"], "TMPDIR": self.folder, "PORT": str(free_tcp_port())})
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)

    def test_a_daemon_that_keeps_us_out_is_not_replaced(self):
        """A private daemon is started only where none runs, not where this user may not connect to it."""
        os.chmod(self.folder, 0o777)
        socket_path = f"{self.folder}/closed.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as closed:
            closed.bind(socket_path)
            closed.listen()
            os.chmod(socket_path, 0o600)
            answer = self.uroce("run", "--", "true", user=_NOBODY, group=_NOBODY, extra_groups=[], cwd="/",
                                env={"PATH": os.environ["PATH"], "TMPDIR": self.folder, "UROCE_SOCKET": socket_path})
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertIn("you may not connect to", answer.stderr)

    def _squatted(self):
        """Makes a listening socket that belongs to another user."""
        self.need_root("the socket is another user's")
        os.chmod(self.folder, 0o777)
        path = f"{self.folder}/squatted.sock"
        listen = ("import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.bind(sys.argv[1]); "
                  "import os; os.chmod(sys.argv[1], 0o666); s.listen(); print('listening', flush=True); "
                  "[s.accept() for _ in iter(int, 1)]")
        squatter = Process(["/usr/bin/python3", "-c", listen, path], f"squatter-{self.next_number()}", self.logs,
                           user=_NOBODY, group=_NOBODY, extra_groups=[], cwd="/")
        self.addCleanup(squatter.end)
        wait_until(lambda: "listening" in squatter.out(), 30, "the squatter")
        return path

    def test_another_users_daemon_is_refused(self):
        """The listener would map our memory: only root and the user itself may."""
        path = self._squatted()
        for command in (["run", "--", "true"], ["status"], ["cm"], ["errors"]):
            with self.subTest(command):
                answer = self.uroce(*command, env={"PATH": os.environ["PATH"], "UROCE_SOCKET": path})
                self.assertEqual(answer.returncode, 1, answer.stderr)
                self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
                self.assertIn(f"user {_NOBODY}", answer.stderr)
        answer = subprocess.run(["ibv_devices"], capture_output=True, text=True, timeout=30, check=False,
                                env={**os.environ, **self.tree.program_environment(), "UROCE_SOCKET": path})
        self.assertNotIn("uroce0", answer.stdout)
        self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
        self.assertIn(f"user {_NOBODY}", answer.stderr)

    def test_private_daemons_folder_is_ones_own(self):
        """Without XDG_RUNTIME_DIR the socket is in /tmp/uroce-UID, which must belong to the user."""
        user = 61_234
        folder = f"/tmp/uroce-{user}"
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        script = f"stat -c %a:%u {folder}; dirname $UROCE_SOCKET"
        options = {"user": user, "group": user, "extra_groups": [], "cwd": "/", "env": {"PATH": os.environ["PATH"]}}
        answer = self.uroce("run", "--", "sh", "-c", script, **options)
        self.assertEqual((answer.returncode, answer.stdout), (0, f"700:{user}\n{folder}\n"), answer.stderr)
        os.chown(folder, _NOBODY, _NOBODY)  # as if another user had made it first
        answer = self.uroce("run", "--", "sh", "-c", "stat -c %a:%u $(dirname $UROCE_SOCKET); dirname $UROCE_SOCKET", **options)
        self.assertRegex(answer.stdout, rf"^700:{user}\n/tmp/uroce-run-......\n$", answer.stderr)

    def test_what_a_killed_run_has_left_goes_with_the_next(self):
        """A folder of its own, where the usual one can't be had; of one that lives nothing is taken."""
        self.need_root("the usual folder is another user's")
        user = 61_235
        usual = f"/tmp/uroce-{user}"
        self.addCleanup(shutil.rmtree, usual, ignore_errors=True)
        os.mkdir(usual, 0o700)
        os.chown(usual, _NOBODY, _NOBODY)
        options = {"user": user, "group": user, "extra_groups": [], "cwd": "/"}

        def run():
            process = subprocess.Popen([self.tree.uroce, "run", "--", "sh", "-c", "dirname $UROCE_SOCKET; exec cat"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]}, **options)
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            self.addCleanup(process.stdin.close)  # the command's, which ends with it
            folder = process.stdout.readline().strip()
            self.assertRegex(folder, r"^/tmp/uroce-run-......$")
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
            return process, folder

        killed, left = run()
        lives, kept = run()
        killed.kill()
        killed.wait()
        runs = [lives]

        def is_swept():
            """The killed one's daemon and keeper may still be ending, and so keep a sweep from removing everything."""
            runs.append(run()[0])
            return not os.path.exists(left)

        wait_until(is_swept, 30, "the sweep of what the killed one has left")
        self.assertTrue(os.path.exists(kept))
        for process in runs:
            process.stdin.close()
            self.assertEqual(process.wait(30), 0)
        wait_until(lambda: not os.path.exists(kept), 30, "the end of the keeper of the tree in it")

    def test_parent_that_ignores_its_children(self):
        """An ignored SIGCHLD is inherited; the command's exit code is passed on all the same."""
        answer = self.uroce("run", "--", "sh", "-c", "exit 42",
                            preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
                            env={"PATH": os.environ["PATH"], "TMPDIR": self.folder})
        self.assertEqual(answer.returncode, 42, answer.stderr)

    def test_uses_the_daemon_there_is(self):
        daemon = self.wire("loopback").server.daemon
        answer = self.uroce("run", "--", "ibv_devinfo", "-v", daemon=daemon)
        self.assertIn("10.77.0.1", answer.stdout)


class Words(E2eCase):
    """Errors in the command line name the wrong word and say what to write."""

    def _refusal(self, *words):
        answer = self.uroce(*words, env={"PATH": os.environ["PATH"], "UROCE_SOCKET": f"{self.folder}/none.sock"})
        self.assertEqual(answer.returncode, 2, answer.stdout + answer.stderr)
        self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
        return answer.stderr

    def test_a_command_behind_options(self):
        for written, right in (("--net rping -s", "--net -- rping -s"), ("--no-tree ibv_devinfo -l", "--no-tree -- ibv_devinfo -l"),
                               ("--namespace ls", "--namespace -- ls"), ("--net 10.0.0.1 rping -s", "--net 10.0.0.1 -- rping -s"),
                               ("--net fd00::1 --no-tree ls -- x", "--net fd00::1 --no-tree -- ls -- x")):
            with self.subTest(written):
                said = self._refusal("run", *written.split())
                self.assertTrue(said.endswith(f"put -- between uroce's options and the command: uroce run {right}\n"), said)

    def test_options_that_are_none(self):
        for written, says in (("--nat -- true", "there is no option --nat;"), ("-s", "there is no option -s;"),
                              ("--net eth0 -- true", "--net: 'eth0' isn't an IP address"),
                              ("--namespace --no-tree -- true", "say one of them"),
                              ("--net", "say which command to run"), ("--net --", "say which command to run"),
                              ("", "say which command to run")):
            with self.subTest(written):
                self.assertIn(says, self._refusal("run", *written.split()))

    def test_an_unknown_subcommand(self):
        self.assertIn("there is no subcommand foo", self._refusal("foo"))

    def test_subcommands_that_are_programs(self):
        for line in ("capture", "check", "replay", "top --sort nothing"):
            self.assertEqual(self.uroce(*line.split()).returncode, 2, line)

    def test_help_lists_options(self):
        for command, options in (("run", ("--net", "--namespace", "--no-tree")), ("doctor", ("--serve", "--json")),
                                 ("integrity", ("--transport", "--windows", "--odp"))):
            with self.subTest(command):
                answer = self.uroce(command, "--help")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                for option in options:
                    self.assertIn(f"\n  {option} ", answer.stdout)


class Numbers(E2eCase):
    def test_that_make_no_sense(self):
        for command in ("top --batch --count -1", "capture --seconds -1 x.pcapng", "capture --count -1 x.pcapng"):
            with self.subTest(command):
                answer = self.uroce(*command.split(), cwd=self.folder, env={**os.environ, "UROCE_SOCKET": f"{self.folder}/none.sock"})
                self.assertEqual(answer.returncode, 2, answer.stderr)


class Status(E2eCase):
    def test_json(self):
        status = self.status(self.wire("loopback").server.daemon)
        for key in ("devices", "sessions", "workers"):
            self.assertIn(key, status)
        identity = status["devices"][0]["identity"]
        self.assertEqual((identity["index"], identity["state"], identity["pkey_count"]), (0, 4, 1))
        self.assertGreater(identity["instance"], 0)

    def test_text(self):
        answer = self.uroce("status", daemon=self.wire("loopback").server.daemon)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("10.77.0.1", answer.stdout)

    def test_without_daemon(self):
        for command in ("status", "cm", "addr", "errors", "limits", "odp"):
            with self.subTest(command):
                answer = self.uroce(command, env={**os.environ, "UROCE_SOCKET": f"{self.folder}/none.sock"})
                self.assertNotEqual(answer.returncode, 0)
                self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
                self.assertIn(f"no daemon listens on {self.folder}/none.sock: start it (systemctl start uroced)", answer.stderr)

    def test_output_that_cannot_be_written(self):
        """On a full disk the exit status says that something is missing. check's 1 would mean faults."""
        daemon = self.wire("loopback").server.daemon
        environment = {**os.environ, "UROCE_SOCKET": daemon.socket}
        empty = f"{self.folder}/empty.pcapng"
        self.assertEqual(self.uroce("capture", "--seconds", 1, empty, daemon=daemon).returncode, 0)
        other = f"{self.folder}/other.pcapng"
        for status, command in ((1, "status --json"), (1, "limits"), (1, "doctor"), (1, "top --batch --count 1"), (1, "report --json"),
                                (1, "capture --seconds 1 -"), (1, f"capture --seconds 1 --json {other}"), (1, "integrity --ops 100"), (1, "integrity --help"),
                                (2, f"check {empty}"), (1, f"replay {empty}")):
            with self.subTest(command), open("/dev/full", "wb") as full:
                answer = subprocess.run([self.tree.uroce, *command.split()], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30,
                                        check=False, env=environment, stdin=subprocess.DEVNULL)
                self.assertEqual(answer.returncode, status, answer.stderr)
                self.assertRegex(answer.stderr, "can.t be written|No space left on device")


class Limits(E2eCase):
    def test_limits(self):
        daemon = self.wire("loopback").server.daemon
        answer = self.uroce("limits", "--json", daemon=daemon)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        [user] = json.loads(answer.stdout)["users"]
        self.assertEqual(user["uid"], os.getuid())
        sessions = next(limit for limit in user["limits"] if limit["name"] == "sessions")
        self.assertEqual(sessions, {"name": "sessions", "used": 1, "allowed": 1024, "maximum": 1024})
        self.assertIn("queue-memory", self.uroce("limits", daemon=daemon).stdout)


class Counters(E2eCase):
    """docs/counters.md"""

    def test_a_port_keeps_what_its_queue_pairs_counted(self):
        wire = self.wire("loopback", "--faults", "loss=0.01,corrupt=0.01,seed=3")
        run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", "-s", 65536, "-n", 100)
        status = self.status(wire.server.daemon)
        self.assertEqual(sum(len(session["qps"]) for session in status["sessions"]), 0)
        counted = status["devices"][0]["hw_counters"]
        for name in ("requests_sent", "requests_resent", "packet_seq_err", "out_of_sequence", "rx_icrc_encapsulated"):
            self.assertGreater(counted[name], 0, name)
        self.assertEqual(counted["rx_icrc_encapsulated"],
                         sum(worker["drops"].get("bad_icrc", 0) for worker in status["workers"]))

    def test_every_name_is_explained(self):
        with open(os.path.join(ROOT, "docs", "counters.md"), encoding="utf-8") as page:
            explained = page.read()
        device = self.status(self.wire("loopback").server.daemon)["devices"][0]
        for name in device["hw_counters"]:
            self.assertIn(f"`{name}`", explained)


class StrangeDaemon(E2eCase):
    """Another program listens at the socket, or a uroced of another version."""

    def _answer(self, path, text):
        """A fake daemon that answers one request with one record."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path)
            listener.listen()
            self._listening.set()
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.send(struct.pack("=IIIiIIII240x", 0x75726F63, 0, 0, 0, 272 + len(text), 0, 0, 0) + text)

    def test_reports_that_make_no_sense(self):
        for number, command in enumerate(("status", "cm", "addr", "errors", "limits")):
            with self.subTest(command):
                path = f"{self.folder}/strange{number}.sock"
                self._listening = threading.Event()
                daemon = threading.Thread(target=self._answer, args=(path, b'{"devices": 7}'), daemon=True)
                daemon.start()
                self.assertTrue(self._listening.wait(60))
                answer = self.uroce(command, env={"PATH": os.environ["PATH"], "UROCE_SOCKET": path})
                daemon.join(10)
                self.assertEqual(answer.returncode, 1, answer.stderr)
                self.assertIn("can't parse the daemon's", answer.stderr)


class BadInput(E2eCase):
    """One clear line that says what to do, and a non-zero exit; nothing is left half-started."""

    def _expect_refusal(self, *arguments, says):
        socket = f"{self.folder}/refused.sock"
        daemon = Process([*self.tree.uroced, "--socket", socket, *arguments], f"refused-{self.next_number()}",
                         self.logs)
        self.addCleanup(daemon.end)
        self.assertNotEqual(daemon.expect_failure(30), 0)
        lines = [line for line in daemon.err().splitlines() if line.strip()]
        self.assertEqual(len(lines), 1, daemon.err())
        self.assertIn(says, lines[0])
        self.assertFalse(os.path.exists(socket))

    def test_unknown_flag(self):
        self._expect_refusal("--frobnicate", says="--frobnicate")

    def test_no_port(self):
        self._expect_refusal(says="--port")

    def test_bad_address(self):
        self._expect_refusal("--port", "loopback", "--ip", "10.0.0.300/24", says="10.0.0.300/24")

    def test_bad_mtu(self):
        self._expect_refusal("--port", "loopback", "--ip", "10.0.0.1/24", "--mtu", 12, says="mtu")

    def test_bad_faults(self):
        self._expect_refusal("--port", "loopback", "--ip", "10.0.0.1/24", "--faults", "loss=2", says="loss")

    def test_missing_device(self):
        self._expect_refusal("--port", "0000:ff:1f.7", "--ip", "10.0.0.1/24", says="0000:ff:1f.7")

    def test_missing_interface(self):
        self._expect_refusal("--port", "net_af_packet0,iface=nosuch0", "--ip", "10.0.0.1/24", says="nosuch0")

    def test_a_peer_that_is_not_there_yet(self):
        """DPDK's driver says only that it failed; that may pass, so systemd is to start the daemon again."""
        daemon = Process([*self.tree.uroced, "--socket", f"{self.folder}/x.sock", "--ip", "10.0.0.1/24",
                          "--port", f"net_virtio_user0,path={self.folder}/none"], "no-peer", self.logs)
        self.addCleanup(daemon.end)
        self.assertEqual(daemon.expect_failure(30), 1)
        self.assertIn("the driver refused net_virtio_user0", daemon.err())

    def test_bad_key_names_line(self):
        path = f"{self.folder}/bad.toml"
        with open(path, "w", encoding="utf-8") as text:
            text.write('[[port]]\nport = "loopback"\nip = ["10.0.0.1/24"]\nspede = 3\n')
        self._expect_refusal("--config", path, says="spede")

    def test_a_ready_descriptor_that_is_not_open(self):
        self._expect_refusal("--port", "loopback", "--ip", "10.0.0.1/24", "--ready-fd", 77, says="no open descriptor 77")

    def test_missing_config(self):
        self._expect_refusal("--config", f"{self.folder}/none.toml", says="none.toml")

    def test_socket_in_use(self):
        daemon = self.wire("loopback").server.daemon
        second = Process([*self.tree.uroced, "--port", "loopback", "--ip", "10.0.0.1/24", "--socket", daemon.socket],
                         "second", self.logs)
        self.addCleanup(second.end)
        second.expect_failure(30)
        self.assertEqual(len(second.err().splitlines()), 1, second.err())
        daemon.expect_running()
        self.status(daemon)

    def test_unwritable_socket(self):
        self._expect_refusal("--port", "loopback", "--ip", "10.0.0.1/24", "--socket", "/nonexistent/x.sock",
                             says="/nonexistent/x.sock")

