"""The root that the packages are in, started by systemd-nspawn as a machine of its own: what the unit lets the daemon do."""

import os
import shutil
import subprocess
import time

from report import Case

_SECONDS_MAX = 300
_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "service.sh")
# Runs the script when everything else is up, and then ends the machine.
_UNIT = """
[Unit]
After=multi-user.target
[Service]
Type=oneshot
StandardOutput=file:/service.log
StandardError=inherit
ExecStart=/bin/bash /service.sh
ExecStopPost=/usr/bin/systemctl --no-block poweroff
"""
# The rights of a machine over its own network, and no registration with a systemd outside, which needn't be there.
_MACHINE = ["systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--private-network", "--capability=all",
            "--system-call-filter=bpf perf_event_open @keyring"]


def service_case(release, log):
    name, start = f"service_{release.suite}", time.monotonic()
    if not shutil.which("systemd-nspawn"):
        return Case(name, "skipped", 0, "systemd-nspawn isn't installed: apps/install-packages.sh package")
    try:
        _run(release.root, log)
    except (subprocess.SubprocessError, OSError, AssertionError) as error:
        return Case(name, "failed", time.monotonic() - start, str(error), log)
    return Case(name, "passed", time.monotonic() - start, "", log)


def _lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", errors="replace") as text:
        return text.read().strip().splitlines()


def _run(root, log):
    unit = f"{root}/etc/systemd/system/test.service"
    wanted = f"{root}/etc/systemd/system/multi-user.target.wants/test.service"
    said = f"{root}/service.log"
    config = f"{root}/etc/uroce/uroce.toml"
    with open(config, encoding="utf-8") as text:
        before = text.read()
    try:
        shutil.copy(_SCRIPT, f"{root}/service.sh")
        with open(unit, "w", encoding="utf-8") as text:
            text.write(_UNIT)
        os.makedirs(os.path.dirname(wanted), exist_ok=True)
        os.symlink(unit.removeprefix(root), wanted)
        with open(log, "w", encoding="utf-8") as out:
            # Mounts of its own, which no other mount namespace sees.
            subprocess.run(["unshare", "--mount", "--propagation", "private", *_MACHINE, "--directory", root], check=True,
                           stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=_SECONDS_MAX)
        lines = _lines(said) or ["it said nothing"]
        assert lines[-1] == "All ran.", f"{next((line for line in reversed(lines) if line.startswith('==')), '')}: {lines[-1]}"
    finally:
        with open(log, "a", encoding="utf-8") as out:
            out.write("\n".join(["", *_lines(said), ""]))
        with open(config, "w", encoding="utf-8") as text:
            text.write(before)  # for the next case in this root
        for path in (unit, wanted, said, f"{root}/service.sh"):
            if os.path.lexists(path):
                os.remove(path)
