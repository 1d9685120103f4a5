"""uroce on a card of the guest that DPDK drives, by the commands of README.md ("A real network card"); its programs run in the guest,
beside those of rxe."""

import json
import signal

from harness.process import ProcessFailed, wait_until
from harness.wires import MTU

_SOCKET = "/run/uroce.sock"
_READY_SECONDS_MAX = 60
_END_SECONDS_MAX = 30
_BIND = """
set -e
modprobe -a {driver} vfio-pci
dpdk-devbind.py --bind=vfio-pci {card}
dpdk-devbind.py --status-dev net
"""


class CardEnd:
    name, address, address_v6, host = "uroce", "10.79.0.1", "fd00:79::1", "127.0.0.1"
    gids = {4: 1, 6: 2}

    def __init__(self, setting, guest, card, driver):
        """`card`: its PCI address; `driver`: the kernel's, which has it first."""
        self._setting, self.guest, self.card, self.daemon = setting, guest, card, None
        guest.run(_BIND.format(driver=driver, card=card))
        self.environment = {"UROCE_SOCKET": _SOCKET, "LD_LIBRARY_PATH": setting.tree.shim}

    def start_daemon(self):
        self.daemon = self.guest.start(
            [*self._setting.tree.uroced, "--port", self.card, "--ip", f"{self.address}/24", "--ip", f"{self.address_v6}/64", "--mtu", MTU,
             "--socket", _SOCKET], f"{self._setting.next_number()}-uroced")
        wait_until(lambda: self.link_is(True), _READY_SECONDS_MAX, "uroced's card with a link")

    def stop_daemon(self):
        self.daemon.signal(signal.SIGTERM)
        self.daemon.expect_success(_END_SECONDS_MAX)

    def status(self):
        """None while it doesn't answer."""
        self.expect_running()
        try:
            return json.loads(self.guest.run([self._setting.tree.uroce, "status", "--json"], environment=self.environment))
        except ProcessFailed:
            return None

    def link_is(self, up):
        status = self.status()
        return status is not None and all((device["link"] == "up") == up for device in status["devices"])

    def start(self, command, name, environment=None):
        return self.guest.start(command, name, {**self.environment, **(environment or {})})

    def tcp_tables(self):
        return [self.guest.read(f"/proc/net/{table}") for table in ("tcp", "tcp6")]

    def cm_listens(self, port):
        answer = self.guest.run([self._setting.tree.uroce, "cm", "--json"], environment=self.environment)
        return any(listener["port"] == port for listener in json.loads(answer)["listeners"])

    def is_in_group(self):
        """Whether a queue pair is in a multicast group."""
        return any("groups" in qp for session in (self.status() or {"sessions": []})["sessions"] for qp in session["qps"])

    def expect_running(self):
        self.guest.expect_running()
        if self.daemon.ended():
            raise ProcessFailed(f"uroced ended: {self.daemon.last_words()}")
