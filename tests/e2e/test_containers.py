"""The manifests of apps/containers: no right is asked for, and what they run works for a user who has none."""

import os

import yaml
from harness.network_case import NetworkCase

_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "apps", "containers")
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
        for attempt in range(20):  # as often as the manifests start it over
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
