"""Cases whose programs are unmodified applications of an ordinary user, on the card of a daemon that runs as root."""

import os

from .case import E2eCase
from .daemon import Daemon
from .namespace import Namespace, NamespacesRefused
from .process import Process
from .udp_wire import NOBODY
from .wires import Endpoint

ADDRESS = "10.77.0.1"
CARD_NAME = "uroce0"
INTERFACE = "uroce7"
# The same user with the effect of `ulimit -l unlimited`, by CAP_IPC_LOCK. Raising the limit itself is refused in many
# containers.
LOCKING_NOBODY = ("setpriv", "--reuid", 65534, "--regid", 65534, "--clear-groups", "--inh-caps=-all,+ipc_lock",
                  "--ambient-caps=-all,+ipc_lock", "--bounding-set=-all,+ipc_lock", "--no-new-privs", "--pdeathsig", "KILL")


class ApplicationCase(E2eCase):
    user = NOBODY  # who runs the programs

    def setUp(self):
        super().setUp()
        self.need_root("the programs are another user's")
        os.chmod(self.folder, 0o777)

    def card(self, *arguments):
        """A loopback card in a namespace of its own, where the kernel has its address, too, on an interface."""
        try:
            namespace = Namespace("alone", self.logs)
        except NamespacesRefused as refusal:
            self.skipTest(str(refusal))
        self.addCleanup(namespace.end)
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "loopback", f"{ADDRESS}/24",
                        ["--mtu", 4200, "--interface", INTERFACE, *arguments], prefix=namespace.prefix())
        self.addCleanup(daemon.end)
        self.addCleanup(daemon.keep_status, self.logs)
        return Endpoint(daemon, ADDRESS, ADDRESS, namespace.pid, [*namespace.prefix(), *self.user])

    def ordinary(self, wire):
        """From now on the wire's programs run as an ordinary user. Returns its endpoints, server first."""
        for end in {id(end): end for end in (wire.server, wire.client)}.values():
            end.prefix = [*end.prefix, *self.user]
        return wire.server, wire.client

    def start(self, end, name, *command, environment=None, **options):
        """Runs a program as the ordinary user; its home is the case's folder."""
        process = Process([*end.prefix, *command], f"{self.next_number()}-{name}", self.logs,
                          {**end.environment(), "HOME": self.folder, "TMPDIR": self.folder, **(environment or {})},
                          **{"cwd": self.folder, **options})
        self.addCleanup(process.end)
        return process

    def expect_sent(self, bytes_min, *daemons):
        """Checks that the data went over the cards, not by another transport of the library. Prints what they sent."""
        for daemon in daemons:
            daemon.expect_running()
            sent = self.bytes_sent(daemon)
            print(f"{daemon.name}: {sent} bytes sent by queue pairs", flush=True)
            self.assertGreater(sent, bytes_min)
