"""The manifests of apps/containers: they request no privileges, and their commands work for a user without any; and a container
that gets the card of a daemon outside, with what the CDI specification says."""

import json
import os
import subprocess

import yaml
from harness.case import E2eCase
from harness.daemon import Daemon
from harness.network_case import NetworkCase
from harness.places import ROOT
from harness.process import wait_until
from harness.udp_wire import NOBODY
from harness.wires import free_tcp_port

_FOLDER = os.path.join(ROOT, "apps", "containers")
_ENTRY = ["--net", "--"]
# Of Kubernetes' restricted policy: the volumes that a pod may have.
_VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def _documents(name):
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as text:
        return list(yaml.safe_load_all(text))


class Containers(NetworkCase):
    def _run_both(self, server, client):
        """`server` in the client's command is the other one's address."""
        serving = self.run_command("server", self.ends[0], *_ENTRY, *server)
        for attempt in range(20):  # as often as the manifests restart it
            words = ["10.77.3.1" if word == "server" else word for word in client]
            pinging = self.run_command(f"client-{attempt}", self.ends[1], *_ENTRY, *words)
            if pinging.wait(60) == 0:
                break
        self.assertEqual(pinging.out().count("ping data: "), 10, pinging.last_words())
        serving.wait(60)

    def test_compose_file(self):
        services = _documents("compose.yaml")[0]["services"]
        self.assertEqual(set(services), {"server", "client"})
        for service in services.values():
            self.assertNotEqual(int(service["user"].split(":")[0]), 0)
            self.assertEqual(service["cap_drop"], ["ALL"])
            self.assertTrue(service["read_only"])
            self.assertIn("no-new-privileges:true", service["security_opt"])
            for right in ("privileged", "cap_add", "devices", "network_mode", "pid", "ipc", "volumes"):
                self.assertNotIn(right, service)
        self._run_both(services["server"]["command"], services["client"]["command"])

    def test_pods(self):
        documents = _documents("pods.yaml")
        pods = {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == "Pod"}
        self.assertEqual(set(pods), {"server", "client"})
        labels = next(one for one in documents if one["kind"] == "Namespace")["metadata"]["labels"]
        self.assertEqual(labels["pod-security.kubernetes.io/enforce"], "restricted")
        for spec in pods.values():
            self._expect_restricted(spec)
        commands = {name: spec["containers"][0]["args"] for name, spec in pods.items()}
        self._run_both(commands["server"], commands["client"])

    def _expect_restricted(self, spec):
        """Each control of https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted."""
        for host in ("hostNetwork", "hostPID", "hostIPC"):
            self.assertFalse(spec.get(host, False))
        pod = spec["securityContext"]
        self.assertTrue(pod["runAsNonRoot"])
        self.assertNotEqual(pod["runAsUser"], 0)
        self.assertIn(pod["seccompProfile"]["type"], ("RuntimeDefault", "Localhost"))
        self.assertFalse({"sysctls", "seLinuxOptions", "windowsOptions"} & set(pod))
        for volume in spec["volumes"]:
            self.assertLessEqual(set(volume) - {"name"}, _VOLUMES)
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            context = container["securityContext"]
            self.assertFalse(context.get("privileged", False))
            self.assertIs(context["allowPrivilegeEscalation"], False)
            self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
            self.assertNotEqual(context.get("runAsUser"), 0)
            self.assertNotIn("procMount", context)
            for port in container.get("ports", []):
                self.assertNotIn("hostPort", port)

    def test_pod_with_card(self):
        """Restricted as well: the card comes by an annotation that names the CDI device."""
        pod = _documents("pod-with-card.yaml")[0]
        self._expect_restricted({"volumes": [], **pod["spec"]})
        spec = _cdi(self.tree)
        self.assertEqual(list(pod["metadata"]["annotations"].values()), [f"{spec['kind']}={spec['devices'][0]['name']}"])

    def test_daemon_set(self):
        """The folders that the daemon's pod shares with the node are those that the CDI specification mounts."""
        pod = next(one for one in _documents("daemonset.yaml") if one["kind"] == "DaemonSet")["spec"]["template"]["spec"]
        shared = {volume["hostPath"]["path"] for volume in pod["volumes"]}
        mounted = {mount["containerPath"] for mount in _cdi(self.tree)["devices"][0]["containerEdits"]["mounts"]}
        self.assertLessEqual(mounted, shared)
        self.assertTrue(pod["hostPID"])
        arguments = pod["containers"][0]["args"]
        answer = subprocess.run([*self.tree.uroced, "--help"], capture_output=True, text=True, check=True)
        for word in (word for word in arguments if word.startswith("--")):
            self.assertIn(word, answer.stdout)


def _cdi(tree):
    with open(os.path.join(tree.root, "apps", "packaging", "uroce.json"), encoding="utf-8") as made:
        return json.load(made)


class Cdi(E2eCase):
    """A daemon of root outside; the program, of an ordinary user, in process, user and mount namespaces of its own."""

    # Makes the specification's mounts, then becomes the container's first process.
    _CONTAINER = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child")

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)
        # uroce.sock in a folder that is root's: what /run/uroce is to a system.
        self.daemon = Daemon(self.tree, self.folder, self.logs, "uroce", "loopback", ["10.77.0.1/24"])
        self.addCleanup(self.daemon.end)
        self.edits = _cdi(self.tree)["devices"][0]["containerEdits"]

    def in_container(self, script, **options):
        """`script` by a shell in a container that has the card. The test's daemon and shim stand for those of the system."""
        stand_ins = {"/run/uroce": self.folder}
        self.assertEqual({mount["containerPath"] for mount in self.edits["mounts"]}, {"/run/uroce", "/opt/uroce"})
        container = os.path.join(self.folder, "container")
        os.makedirs(container, exist_ok=True)
        binds = []
        for mount in self.edits["mounts"]:
            source = stand_ins.get(mount["containerPath"], self.tree.shim)
            binds.append(f"mkdir -p .{mount['containerPath']} && mount --bind {source} .{mount['containerPath']}")
        # A new root made of the old one's folders, without anything else of uroce.
        root = (f"mount -t tmpfs tmpfs {container} && cd {container} && mkdir -p proc tmp dev && mount -t proc proc proc && mount --rbind /dev dev && "
                "for folder in bin etc lib lib64 sbin usr; do mkdir $folder && mount --rbind /$folder $folder; done")
        words = [*NOBODY, *self._CONTAINER, "bash", "-c",
                 " && ".join([root, *binds, 'exec chroot . env "$@"']), "bash", *self.edits["env"], "bash", "-c", script]
        return subprocess.Popen(list(map(str, words)), cwd=container, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]}, **options)

    def _expect(self, process, seconds_max=90):
        out, err = process.communicate(timeout=seconds_max)
        self.assertEqual(process.returncode, 0, out + err)
        return out

    def test_programs_of_a_container(self):
        """In a process namespace of their own, which the daemon sees from outside; memory pinned and on demand."""
        for flags in ("", "-o"):
            with self.subTest(flags):
                port = free_tcp_port()
                pingpong = f"UROCE_DEBUG=1 ibv_rc_pingpong -g 1 -c {flags} -s 65537 -n 100 -p {port}"
                out = self._expect(self.in_container(
                    f"{pingpong} >/tmp/server 2>&1 & until {pingpong} 127.0.0.1; do kill -0 $! || {{ cat /tmp/server; exit 1; }}; done; wait $!"))
                self.assertIn("100 iters", out)

    def test_end_of_a_container(self):
        """It is killed with all its processes, and the daemon frees all its objects."""
        container = self.in_container(f"ibv_rc_pingpong -g 1 -p {free_tcp_port()}")
        self.addCleanup(container.kill)
        wait_until(self._sessions, 30, "the container's session")
        container.kill()
        container.communicate(timeout=30)
        wait_until(lambda: not self._sessions(), 30, "the end of its session")

    def _sessions(self):
        return [one for one in self.status(self.daemon)["sessions"] if one["command"] != "uroce"]
