"""Cases on two namespaces that a veth pair joins, before any daemon is there."""

import os

from .case import E2eCase
from .daemon import Daemon
from .namespace import Namespace, NamespacesRefused, veth_pair
from .process import Process
from .udp_wire import NOBODY


class NetworkCase(E2eCase):
    """The veth pair is both namespaces' default route; addresses 10.77.3.1, fd00:78::1 and 10.77.3.2, fd00:78::2."""

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o777)
        try:
            self.ends = [Namespace(name, self.logs) for name in ("a", "b")]
            for end in self.ends:
                self.addCleanup(end.end)
            veth_pair(*self.ends, 1500, ["10.77.3.1/24", "10.77.3.2/24"])
            for number, end in enumerate(self.ends, 1):
                end.run("ip", "address", "add", f"fd00:78::{number}/64", "dev", "wire", "nodad")
                end.run("ip", "route", "add", "default", "dev", "wire")
        except NamespacesRefused as refusal:
            self.skipTest(str(refusal))

    def daemon(self, name, end, *port):
        os.chmod(self.folder, 0o777)
        daemon = Daemon(self.tree, self.folder, self.logs, name, port[0], port[1:], prefix=[*end.prefix(), *NOBODY])
        self.addCleanup(daemon.end)
        return daemon

    def run_command(self, name, end, *arguments):
        """`uroce run` of an ordinary user where no daemon answers."""
        return self.uroce_alone(name, end, "run", *arguments)

    def uroce_alone(self, name, end, *arguments):
        """The command-line tool of an ordinary user where no daemon answers."""
        process = Process([*end.prefix(), *NOBODY, self.tree.uroce, *arguments], name, self.logs,
                          {"UROCE_SOCKET": os.path.join(self.folder, "none.sock")}, cwd="/")
        self.addCleanup(process.end)
        return process
