"""The card in /sys, /dev and netlink: as tools see it that don't use libibverbs, as an ordinary user."""

import os
import re
import signal
import subprocess
import sys
import urllib.request

from harness.case import E2eCase
from harness.process import Process, wait_until
from harness.programs import run_pair, start
from harness.wires import free_tcp_port

NOBODY = 65534
_CARD = "/sys/class/infiniband/uroce0"
_STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup.py")


class TreeCase(E2eCase):
    def setUp(self):
        super().setUp()
        self.need_root("the programs are another user's")
        os.chmod(self.folder, 0o777)
        self.run_folder = f"{self.folder}/run"
        os.mkdir(self.run_folder, 0o700)
        os.chown(self.run_folder, NOBODY, NOBODY)

    def user(self):
        """Options that start a process as an ordinary user."""
        return {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/",
                "env": {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", "TMPDIR": self.folder, "HOME": "/nonexistent",
                        "XDG_RUNTIME_DIR": self.run_folder, "UROCE_QUIET": "1"}}

    def need_no_card_of_the_kernels(self):
        if os.path.exists("/sys/class/infiniband"):
            self.skipTest("this machine has an RDMA card of its own")

    def shell(self, script, *options):
        """Returns the output of a shell under `uroce run`, as an ordinary user, with a private daemon."""
        answer = self.uroce("run", *options, "--", "sh", "-ec", script, **self.user())
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual(answer.stderr, "")
        return answer.stdout


class Files(TreeCase):
    def test_every_tool_shows_the_same_card(self):
        self.need("ibstat", "rdma", "ibv_devices", "ucx_info", "fi_info")
        guid = self.shell(f"cat {_CARD}/node_guid").strip()
        self.assertRegex(guid, r"^([0-9a-f]{4}:){3}[0-9a-f]{4}$")
        plain = guid.replace(":", "")
        for script, found in (("rdma link show", "link uroce0/1 state ACTIVE physical_state LINK_UP"),
                              ("rdma dev", rf"[1-9]\d*: uroce0: node_type ca fw .* node_guid {guid} sys_image_guid {guid}"),
                              ("ibstat uroce0", f"Node GUID: 0x{plain}"), ("ibstat -l", "^uroce0$"),
                              ("ibv_devices", rf"uroce0\s+{plain}"), ("ucx_info -d", "Device: uroce0:1"),
                              ("fi_info -p verbs", "domain: uroce0")):
            with self.subTest(script):
                self.assertRegex(self.shell(script), re.compile(found, re.MULTILINE))

    def test_formats_of_the_kernel(self):
        port = f"{_CARD}/ports/1"
        for path, text in ((f"{_CARD}/node_type", "1: CA"), (f"{_CARD}/board_id", "uroce"), (f"{port}/state", "4: ACTIVE"),
                           (f"{port}/phys_state", "5: LinkUp"), (f"{port}/link_layer", "Ethernet"), (f"{port}/lid", "0x0"),
                           (f"{port}/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001"), (f"{port}/gid_attrs/types/1", "RoCE v2"),
                           (f"{port}/pkeys/0", "0xffff"), (f"{_CARD}/device/numa_node", "-1"),
                           ("/sys/class/infiniband_verbs/abi_version", "6"), ("/sys/class/infiniband_verbs/uroce0/ibdev", "uroce0")):
            with self.subTest(path):
                self.assertEqual(self.shell(f"cat {path}"), text + "\n")
        self.assertRegex(self.shell(f"cat {port}/rate"), r"^\d+(\.5)? Gb/sec \(\d+X( \w+)?\)$")

    def test_shells_and_listings(self):
        self.assertEqual(self.shell("ls /sys/class/infiniband"), "uroce0\n")
        self.assertIn("uroce0 -> ../../devices/", self.shell("ls -l /sys/class/infiniband/ /dev/infiniband"))
        self.assertEqual(self.shell(f"realpath {_CARD}/device"), "/sys/devices/pci7572:00/7572:00:00.0\n")
        self.assertEqual(self.shell("cd /sys/class/infiniband/uroce0/ports && echo *"), "1\n")
        self.assertEqual(self.shell("test -c /dev/infiniband/uroce0 && exec 3<>/dev/infiniband/rdma_cm && echo yes"), "yes\n")

    def test_start_of_nccl_mooncake_and_gloo(self):
        self.assertEqual(self.shell(f"{sys.executable} {_STARTUP}"), "uroce0 /sys/devices/pci7572:00/7572:00:00.0\n")

    def test_goes_with_the_command(self):
        os.mkdir(f"{self.run_folder}/tree-sitter", 0o700)  # somebody else's
        os.chown(f"{self.run_folder}/tree-sitter", NOBODY, NOBODY)
        self.assertIn("/uroce-tree-", self.shell("echo $UROCE_TREE"))
        wait_until(lambda: not [name for name in os.listdir(self.run_folder) if name.startswith("uroce-tree-")], 30, "the tree's end")
        self.assertIn("tree-sitter", os.listdir(self.run_folder))

    def test_left_by_a_killed_keeper(self):
        """The next `uroce run` of the user removes it, and leaves alone those that are in use."""
        runs = [self._start_run(name) for name in ("killed", "living")]
        killed, living = [run.out().strip() for run in runs]
        keeper = self._keeper_of(killed, runs[0])
        os.kill(keeper, signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f"/proc/{keeper}"), 30, "the keeper's end")
        self.shell("true")
        self.assertTrue(os.path.exists(f"{killed}/sys"), "its command runs still")
        runs[0].end()
        self.shell("true")
        self.assertFalse(os.path.exists(killed))
        self.assertTrue(os.path.exists(f"{living}/sys/class/infiniband/uroce0"))

    def _start_run(self, name):
        user = self.user()
        run = Process([self.tree.uroce, "run", "--", "sh", "-c", "echo $UROCE_TREE; exec sleep 100"], name, self.logs, user.pop("env"), **user)
        self.addCleanup(run.end)
        wait_until(lambda: "uroce-tree-" in run.out() or run.ended(), 30, "the command")
        return run

    def _keeper_of(self, tree, run):
        """The process that has the tree's folder open, beside `uroce run` itself, which has the command's."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                opened = [os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")]
                if tree in opened and int(pid) != run.pid:
                    return int(pid)
            except OSError:
                continue
        return self.fail(f"nobody keeps {tree}")

    def test_goes_with_a_container(self):
        """Whose first process `uroce run` is: with it the kernel ends all others."""
        answer = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", self.tree.uroce, "run", "--",
                                 "sh", "-c", "echo $UROCE_TREE; ls /sys/class/infiniband"], capture_output=True, text=True, check=True,
                                env={**os.environ, "XDG_RUNTIME_DIR": self.run_folder_of_root(), "UROCE_SOCKET": f"{self.folder}/none.sock"})
        self.assertRegex(answer.stdout, r"\A\S+/uroce-tree-\S+\nuroce0\n\Z")
        self.assertEqual([name for name in os.listdir(self.run_folder_of_root()) if name.startswith("uroce-tree-")], [])

    def run_folder_of_root(self):
        folder = f"{self.folder}/root"
        os.makedirs(folder, 0o700, exist_ok=True)
        return folder

    def test_found_by_libibverbs_alone(self):
        """A program without the interposing library (LD_PRELOAD) still finds the tree, by UROCE_TREE."""
        self.need_no_card_of_the_kernels()
        script = ("import ctypes; verbs = ctypes.CDLL('libibverbs.so.1'); verbs.ibv_get_sysfs_path.restype = ctypes.c_char_p; "
                  "print(verbs.ibv_get_sysfs_path().decode())")
        told, tree = self.shell(f'env -u LD_PRELOAD {sys.executable} -c "{script}"; echo $UROCE_TREE/sys').splitlines()
        self.assertEqual(told, tree)

    def test_without(self):
        self.need_no_card_of_the_kernels()
        self.assertEqual(self.shell("test ! -e /sys/class/infiniband && echo \"[$LD_PRELOAD$UROCE_TREE]\"", "--no-tree"), "[]\n")

    def test_counters_are_the_daemons(self):
        """And they are updated while the program runs."""
        wire = self.wire("loopback", "--direct", "off")
        name = f"{_CARD}/ports/1/hw_counters/requests_sent"
        watcher = start(self, wire.server, [self.tree.uroce, "run", "--", "sh", "-c",
                                            f"cat {name}; until [ $(cat {name}) -gt 0 ]; do sleep 0.1; done; echo more"], "watcher")
        wait_until(lambda: watcher.out().startswith("0\n"), 30, "the tree")
        run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-n", 100)
        self.assertEqual(watcher.expect_success(30), "0\nmore\n")
        counted = self.status(wire.server.daemon)["devices"][0]
        answer = self.uroce("run", "--", "sh", "-c", f"cat {name} {_CARD}/ports/1/counters/port_xmit_packets", daemon=wire.server.daemon)
        self.assertEqual(answer.stdout.split(), [str(counted["hw_counters"]["requests_sent"]), str(counted["tx_frames"])], answer.stderr)

    def test_in_a_folder_of_ones_choice(self):
        """`uroce tree`: when it ends it removes what it made, and nothing else."""
        wire = self.wire("loopback")
        place = f"{self.folder}/tree"
        os.makedirs(f"{place}/sys/class/mine")
        keeper = start(self, wire.server, [self.tree.uroce, "tree", place], "keeper")
        wait_until(lambda: keeper.ended() or os.path.exists(f"{place}{_CARD}/ports/1/state"), 30, "the tree")
        with open(f"{place}{_CARD}/ports/1/state", encoding="ascii") as state:
            self.assertEqual(state.read(), "4: ACTIVE\n")
        wire.server.daemon.stop()

        def link_is_down():
            with open(f"{place}{_CARD}/ports/1/state", encoding="ascii") as state:
                return state.read() == "1: DOWN\n"
        wait_until(link_is_down, 30, "message about the daemon's end")
        keeper.signal(15)
        keeper.expect_success(30)
        self.assertEqual(list(os.walk(place)), [(place, ["sys"], []), (f"{place}/sys", ["class"], []),
                                                (f"{place}/sys/class", ["mine"], []), (f"{place}/sys/class/mine", [], [])])


class Netlink(TreeCase):
    def _rdma(self, daemon, *words):
        answer = self.uroce("run", "--", "rdma", *words, daemon=daemon)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""), answer.stdout)
        return answer.stdout

    def test_queue_pairs(self):
        self.need("rdma")
        wire = self.wire("loopback")
        waiting = start(self, wire.server, ["ibv_rc_pingpong", "-g", 1, "-p", free_tcp_port()], "waiting")

        def queue_pairs():
            return [qp for session in self.status(wire.server.daemon)["sessions"] for qp in session["qps"] if qp["state"] == "INIT"]
        [qp] = wait_until(queue_pairs, 30, "a queue pair")
        shown = self._rdma(wire.server.daemon, "resource", "show", "qp")
        self.assertRegex(shown, rf"link uroce0/1 lqpn {qp['qpn']} .*type RC state INIT .*pid {waiting.pid} comm ibv_rc_pingpong")
        self.assertRegex(self._rdma(wire.server.daemon, "resource"), r"^[1-9]\d*: uroce0: .*qp 1 ")
        owner = f"pid {waiting.pid} comm ibv_rc_pingpong"
        for kind, text in (("pd", r"pdn \d+ users [1-9]"), ("cq", r"cqe 512 users [1-9]"), ("mr", r"mrlen 4096")):
            with self.subTest(kind):
                shown = self._rdma(wire.server.daemon, "resource", "show", kind).splitlines()
                self.assertEqual(len(shown), 1, shown)
                self.assertRegex(shown[0], text)
                self.assertIn(owner, shown[0])
        self.assertRegex(self._rdma(wire.server.daemon, "statistic", "qp", "show"),
                         rf"link uroce0/1 cntn {qp['qpn']} {owner} requests_sent 0 [\s\S]*LQPN: <{qp['qpn']}>")
        wire.expect_running()

    def test_answer_that_is_longer_than_a_socket_holds(self):
        """It is sent as fast as the tool reads it, completely."""
        self.need("rdma")
        wire = self.wire("loopback")
        many = 300
        script = ("import signal; from pyverbs.device import Context; from pyverbs.pd import PD; from pyverbs.cq import CQ; "
                  "from pyverbs.qp import QP, QPInitAttr, QPCap; import pyverbs.enums as e; "
                  "card = Context(name='uroce0'); pd = PD(card); cq = CQ(card, 8); "
                  f"qps = [QP(pd, QPInitAttr(e.IBV_QPT_RC, cap=QPCap(1, 1, 1, 1), scq=cq, rcq=cq)) for _ in range({many})]; "
                  "print('ready', flush=True); signal.pause()")
        program = start(self, wire.server, ["/usr/bin/python3", "-c", script], "many")
        wait_until(lambda: program.ended() or "ready" in program.out(), 60, "queue pairs")
        self.assertFalse(program.ended(), program.err())
        shown = self._rdma(wire.server.daemon, "statistic", "qp", "show")
        self.assertEqual(len(set(re.findall(r"LQPN: <(\d+)>", shown))), many)

    def test_listeners(self):
        self.need("rdma", "rping")
        wire = self.wire("loopback")
        start(self, wire.server, ["rping", "-s", "-a", wire.server.address, "-p", 7471], "rping")
        wait_until(lambda: "LISTEN" in self._rdma(wire.server.daemon, "resource", "show", "cm_id"), 30, "a listener")
        self.assertIn("ps TCP pid", self._rdma(wire.server.daemon, "resource", "show", "cm_id"))
        self.assertIn(f"src-addr {wire.server.address}:7471", self._rdma(wire.server.daemon, "resource", "show", "cm_id"))

    def test_statistic(self):
        self.need("rdma")
        wire = self.wire("loopback")
        run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-n", 100)
        counted = self.status(wire.server.daemon)["devices"][0]["hw_counters"]
        shown = self._rdma(wire.server.daemon, "statistic").split()
        told = dict(zip(shown[2::2], shown[3::2]))
        self.assertEqual(told, {name: str(value) for name, value in counted.items()})


class Namespace(TreeCase):
    def setUp(self):
        super().setUp()
        answer = self.uroce("run", "--namespace", "--", "true", **self.user())
        if "user namespace" in answer.stderr:
            self.skipTest(answer.stderr.strip())

    def test_shown_without_a_library(self):
        """A program that makes its own system calls sees the card, too; everything else is as before."""
        alone = "env -u LD_PRELOAD -u UROCE_TREE"
        self.assertEqual(self.shell(f"{alone} cat {_CARD}/node_type", "--namespace"), "1: CA\n")
        self.assertEqual(self.shell(f"{alone} realpath {_CARD}/device", "--namespace"), "/sys/devices/pci7572:00/7572:00:00.0\n")
        self.assertEqual(self.shell(f"{alone} test -c /dev/infiniband/uroce0 && echo x >/dev/null && id -u", "--namespace"), f"{NOBODY}\n")
        for folder in ("/sys/class", "/sys/devices", "/sys/class/net", "/dev", "/dev/shm"):
            with self.subTest(folder):
                shown = set(self.shell(f"{alone} ls -a {folder}", "--namespace").split())
                self.assertLessEqual(set(os.listdir(folder)), shown | {"infiniband"})

    def test_new_terminals(self):
        script = f"{sys.executable} -c 'import os; print(os.ttyname(os.openpty()[1]))'"
        outside = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=30, check=False, **self.user())
        if outside.returncode != 0:
            self.skipTest(f"there are none outside either: {outside.stderr.splitlines()[-1]}")
        self.assertRegex(self.shell(script, "--namespace"), r"^/dev/(\.kernel/)?pts/\d+$")

    def test_carries_data(self):
        script = ("ibv_rc_pingpong -g 1 -c -n 100 -p PORT >/dev/null & server=$!; until ibv_rc_pingpong -g 1 -c -n 100 -p PORT 127.0.0.1 "
                  ">/dev/null 2>&1; do kill -0 $server || exit 1; done; wait $server").replace("PORT", str(free_tcp_port()))
        self.shell(script, "--namespace")

    def test_node_exporter(self):
        """Written in Go: it makes its system calls itself."""
        self.need("prometheus-node-exporter")
        port = free_tcp_port()
        options = self.user()
        exporter = Process([self.tree.uroce, "run", "--namespace", "--", "prometheus-node-exporter", "--collector.disable-defaults",
                            "--collector.infiniband", f"--web.listen-address=127.0.0.1:{port}"], "exporter", self.logs,
                           options.pop("env"), **options)
        self.addCleanup(exporter.end)
        wait_until(lambda: exporter.ended() or "Listening on" in exporter.err(), 30, "node_exporter")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
            metrics = page.read().decode()
        self.assertRegex(metrics, r'node_infiniband_info\{board_id="uroce",device="uroce0",firmware_version="[^"]+",hca_type="uroce"\} 1')
        for metric in ('node_infiniband_state_id{device="uroce0",port="1"} 4', 'node_scrape_collector_success{collector="infiniband"} 1',
                       'node_infiniband_port_packets_transmitted_total{device="uroce0",port="1"} 0'):
            self.assertIn(metric, metrics)
