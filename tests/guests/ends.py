"""The two ends of a wire: uroce's, whose programs run here in a network namespace, and rxe's, whose programs run in a guest.

Both have start(command, name), `name`, `address`, `address_v6`, `host` (where TCP reaches its programs) and `gids`: the GID index by
address family.
"""

import json

from harness.process import Process, wait_until
from harness.wires import MTU

_RXE_SECONDS_MAX = 30
_GIDS = "/sys/class/infiniband/rxe0/ports/1/gids"
_IPV4_GID, _IPV6_GID = "0000:0000:0000:0000:0000:ffff:", "fd00:"
# A long queue, so that few packets are lost where the guest is slow: loss has cases of its own. Without a link-local address the
# kernel solicits no neighbours.
_START_RXE = """
set -e
modprobe -a virtio_net rdma_rxe rdma_ucm
card=$(basename /sys/bus/pci/devices/*/virtio*/net/*)
ip link set $card mtu {mtu} addrgenmode none txqueuelen 10000
ip address add {address}/24 dev $card
ip address add {address_v6}/64 dev $card nodad
ip address add fe80::2/64 dev $card nodad
ip link set $card up
rdma link add rxe0 type rxe netdev $card
"""


class UroceEnd:
    name, address, address_v6 = "uroce", "10.79.0.1", "fd00:79::1"
    host = address
    gids = {4: 1, 6: 2}

    def __init__(self, setting, namespace, daemon):
        self._setting, self._namespace, self.daemon = setting, namespace, daemon

    def start(self, command, name, environment=None):
        process = Process([*self._namespace.prefix(), *command], name, self._setting.logs,
                          {**self.daemon.environment(), **(environment or {})})
        self._setting.addCleanup(process.end)
        return process

    def tcp_tables(self):
        return [_text(f"/proc/{self._namespace.pid}/net/{table}") for table in ("tcp", "tcp6")]

    def cm_listens(self, port):
        answer = self._setting.uroce("cm", "--json", daemon=self.daemon)
        return any(listener["port"] == port for listener in json.loads(answer.stdout)["listeners"])

    def is_in_group(self):
        """Whether a queue pair is in a multicast group."""
        return any("groups" in qp for session in self._setting.status(self.daemon)["sessions"] for qp in session["qps"])

    def expect_running(self):
        self.daemon.expect_running()


class RxeEnd:
    name, address, address_v6 = "rxe", "10.79.0.2", "fd00:79::2"

    def __init__(self, guest, host=None):
        self.guest, self.host = guest, host or self.address
        guest.run(_START_RXE.format(mtu=MTU, address=self.address, address_v6=self.address_v6))
        self.gids = wait_until(self._gids, _RXE_SECONDS_MAX, "the GIDs of rxe's addresses")

    def _gids(self):
        """None until both are there."""
        gids = self.guest.run(f"cd {_GIDS}; for index in 0 1 2 3 4; do cat $index; done").split()
        found = {6 if gid.startswith(_IPV6_GID) else 4: index for index, gid in enumerate(gids)
                 if gid.startswith((_IPV4_GID, _IPV6_GID))}
        return found if len(found) == 2 else None

    def start(self, command, name, environment=None):
        return self.guest.start(command, name, environment)

    def tcp_tables(self):
        return [self.guest.read(f"/proc/net/{table}") for table in ("tcp", "tcp6")]

    def cm_listens(self, port):
        return f":{port} " in self.guest.run("rdma resource show cm_id | grep LISTEN || true")

    def is_in_group(self):
        """Whether the card filters for a group 239.77.N.N."""
        return "01005e4d" in self.guest.read("/proc/net/dev_mcast")

    def expect_running(self):
        self.guest.expect_running()


def _text(path):
    with open(path, encoding="ascii") as text:
        return text.read()
