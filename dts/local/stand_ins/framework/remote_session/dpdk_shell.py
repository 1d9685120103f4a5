"""Local stand-in for framework.remote_session.dpdk_shell of DTS: the application on two pipes."""

import os
import select
import shlex
import subprocess
import time

_SECONDS_MAX = 60


class DPDKShell:
    _default_prompt = ""
    _command_extra_chars = ""
    log_path = os.devnull  # for the runner: where the application's standard error goes
    stand_in = None  # for the runner: what answers instead of an application

    def __init__(self, name=None, privileged=True, app_params=None):
        self._privileged, self._app_params = False, app_params
        self._process, self._name = None, name

    def start_application(self, prompt=None):
        if DPDKShell.stand_in:
            return
        with open(DPDKShell.log_path, "ab") as log:
            self._process = subprocess.Popen(shlex.split(self._make_start_command()), stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, stderr=log)
        self._read_to(prompt or self._default_prompt)

    def send_command(self, command, prompt=None, skip_first_line=False):
        if DPDKShell.stand_in:
            return DPDKShell.stand_in.command(command)
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()
        return self._read_to(prompt or self._default_prompt)

    def _read_to(self, prompt):
        text, end = b"", time.monotonic() + _SECONDS_MAX
        while not text.rstrip().endswith(prompt.encode()):
            if not select.select([self._process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"{self._name}: no prompt after {_SECONDS_MAX} s: {text[-300:]!r}")
            piece = os.read(self._process.stdout.fileno(), 65536)
            if not piece:
                raise EOFError(f"{self._name} ended: {text[-300:]!r}; see {DPDKShell.log_path}")
            text += piece
        return text.decode().rstrip().removesuffix(prompt)

    def close(self):
        if DPDKShell.stand_in:
            return
        self._process.stdin.close()
        try:
            self._process.wait(_SECONDS_MAX)
        finally:
            self._process.kill()
            self._process.stdout.close()
