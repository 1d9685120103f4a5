"""A daemon with --telemetry as DPDK's own tools see it: its device, its buffers, its reports."""

import json
import os
import socket

from harness.case import E2eCase
from harness.daemon import Daemon

_ANSWER_BYTES_MAX = 65536


class Telemetry(E2eCase):
    def _ask(self, channel, command):
        channel.send(command.encode())
        return json.loads(channel.recv(_ANSWER_BYTES_MAX))[command.split(",")[0]]

    def test_a_port(self):
        """Its buffers lie on the memory node that its device names (here its main lcore's); our reports are there."""
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "net_null0", "10.77.0.1/24",
                        ["--telemetry", "--", "--file-prefix", "card", "--lcores", f"(0-1)@{min(os.sched_getaffinity(0))}"],
                        environment={"RUNTIME_DIRECTORY": self.folder})
        self.addCleanup(daemon.end)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
            channel.settimeout(30)
            channel.connect(os.path.join(self.folder, "dpdk", "card", "dpdk_telemetry.v2"))
            channel.recv(_ANSWER_BYTES_MAX)  # who it is
            [pool] = self._ask(channel, "/mempool/list")
            node = self._ask(channel, "/ethdev/info,0")["numa_node"]
            self.assertGreaterEqual(node, 0)
            self.assertEqual(self._ask(channel, f"/mempool/info,{pool}")["socket_id"], node)
            self.assertEqual(self._ask(channel, "/uroce/devices")["0"]["port"], "net_null0")
            self.assertEqual(self._ask(channel, "/uroce/workers")["0"]["worker"], 0)
        daemon.stop()
