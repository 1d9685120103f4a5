"""Network namespaces without names: each lives as long as the process that holds it, so none is ever left over."""

import os
import subprocess

from .process import Process, wait_until


class NamespacesRefused(Exception):
    """This machine refuses to make network namespaces; says why."""


class Namespace:
    def __init__(self, name, logs):
        self.name = name
        self._holder = Process(["unshare", "--net", "cat"], f"namespace-{name}", logs, stdin=subprocess.PIPE)
        self.pid = self._holder.pid
        wait_until(self._made, 60, f"namespace {name}")
        self.run("ip", "link", "set", "lo", "up")

    def _made(self):
        if self._holder.ended():
            raise NamespacesRefused(f"network namespaces are refused: {self._holder.err().strip()}")
        return os.readlink(f"/proc/{self.pid}/ns/net") != os.readlink("/proc/self/ns/net")

    def prefix(self):
        """Put before a command, it runs the command inside."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    def run(self, *command):
        answer = subprocess.run([*self.prefix(), *command], capture_output=True, text=True, check=False)
        if answer.returncode:
            raise NamespacesRefused(f"{' '.join(command)}: {answer.stderr.strip()}")
        return answer.stdout

    def end(self):
        self._holder.end()


def veth_pair(first, second, mtu, addresses, names=("wire", "wire")):
    """Joins two namespaces: an interface in each, with the addresses (A.B.C.D/N) given."""
    first.run("ip", "link", "add", names[0], "mtu", str(mtu), "type", "veth",
              "peer", "name", names[1], "mtu", str(mtu), "netns", str(second.pid))
    for namespace, name, address in zip((first, second), names, addresses):
        namespace.run("ip", "link", "set", name, "addrgenmode", "none")
        namespace.run("ip", "address", "add", address, "dev", name)
        namespace.run("ip", "link", "set", name, "up")
    for namespace, name in zip((first, second), names):
        wait_until(lambda: "LOWER_UP" in namespace.run("ip", "link", "show", name), 60, "the veth pair's carrier")
