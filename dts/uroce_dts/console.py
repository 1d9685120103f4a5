"""The daemon with its console (apps/console), as a DPDK application that DTS starts."""

import os
from pathlib import PurePath

from framework.params.eal import EalParams
from framework.remote_session.dpdk_shell import DPDKShell


class CommandRefused(Exception):
    """The console answered error=..."""


class UrocedShell(DPDKShell):
    """`port`: a vdev string, or None for the PCI device that DTS allows to its applications."""

    _default_prompt = "uroce>"
    _command_extra_chars = "\n"

    def __init__(self, uroced, address, mtu, port=None, arguments=()):
        super().__init__(name="uroced", privileged=True, app_params=EalParams())
        self._uroced, self._address, self._mtu = uroced, address, mtu
        self._port, self._arguments = port, arguments
        self.socket = f"/tmp/uroce-dts-{os.getpid()}.sock"

    @property
    def path(self):
        return PurePath(self._uroced)

    def _make_start_command(self):
        """Our arguments come first, the EAL's after `--`."""
        port = self._port or self._app_params.allowed_ports[0].pci
        command = (f"{self.path} --console --port {port} --ip {self._address} --mtu {self._mtu} "
                   f"--socket {self.socket} {' '.join(self._arguments)}")
        if self._port is None:
            command += f" -- {str(self._app_params).removesuffix('--')}"
        return self._node.main_session._get_privileged_command(command) if self._privileged else command

    def run(self, command):
        """The lines of the answer. CommandRefused if it is an error."""
        lines = [line.strip() for line in self.send_command(command).splitlines()]
        lines = [line.removeprefix(self._default_prompt).strip() for line in lines]
        lines = [line for line in lines if line and line != command]  # a terminal echoes the command
        for line in lines:
            if line.startswith("error="):
                raise CommandRefused(f"{command}: {line.removeprefix('error=')}")
        return lines

    def ask(self, command):
        """The key=value pairs of the answer."""
        pairs = {}
        for line in self.run(command):
            for word in line.split():
                key, _, value = word.partition("=")
                pairs[key] = value
        return pairs
