"""A container of the root that the packages are in: podman passes it the card by its CDI name, and nothing else."""

import json
import os
import shutil
import subprocess
import tempfile
import time

from report import Case

_SECONDS_MAX = 120
# The container's program: an ordinary one, under podman's own limits (seccomp, capabilities, pid namespace).
_PROGRAM = """
set -e
ibv_devinfo | grep PORT_ACTIVE
ibv_rc_pingpong -g 1 -c -n 200 -p 18610 >/tmp/server & server=$!
for attempt in $(seq 100); do
  ibv_rc_pingpong -g 1 -c -n 200 -p 18610 127.0.0.1 && break
done
wait $server
grep 'MTU\\|iters' /tmp/server
"""


def container_case(release):
    name, start = f"container_{release.suite}", time.monotonic()
    if not all(shutil.which(program) for program in ("podman", "runc")):
        return Case(name, "skipped", 0, "podman or runc isn't installed: apps/install-packages.sh package")
    try:
        out = _run(release.root)
    except (subprocess.SubprocessError, OSError, AssertionError) as error:
        text = getattr(error, "stdout", "") or ""
        return Case(name, "failed", time.monotonic() - start, f"{error}: {text[-300:]}")
    if "PORT_ACTIVE" not in out or "200 iters" not in out:
        return Case(name, "failed", time.monotonic() - start, out[-300:])
    return Case(name, "passed", time.monotonic() - start)


def _run(root):
    with tempfile.TemporaryDirectory(prefix="uroce-container-") as folder:
        with open(f"{root}/etc/cdi/uroce.json", encoding="utf-8") as installed:
            spec = json.load(installed)
        for mount in spec["devices"][0]["containerEdits"]["mounts"]:
            if mount["hostPath"] == "/run/uroce":
                mount["hostPath"] = folder  # a daemon of the test's own, not the system's
            else:
                mount["hostPath"] = root + mount["hostPath"]
        os.makedirs(f"{folder}/cdi")
        with open(f"{folder}/cdi/uroce.json", "w", encoding="utf-8") as changed:
            json.dump(spec, changed)
        os.chmod(folder, 0o755)
        podman = ["podman", "--root", f"{folder}/storage", "--runroot", f"{folder}/state", "--storage-driver", "vfs",
                  "--cgroup-manager", "cgroupfs"]
        command = [*podman, "run", "--rm", "--runtime", "runc", "--network", "none", "--user", "65532:65532", "--read-only",
                   "--tmpfs", "/tmp", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000",
                   "--device", "uroce.io/card=uroce0", "--rootfs", root, "bash", "-c", _PROGRAM]
        with _Daemon(root, folder):
            # podman reads /etc/cdi and /run/cdi: the one that it sees here is the test's.
            script = 'mkdir -p /run/cdi && mount --bind "$0" /run/cdi && exec "$@"'
            return subprocess.run(["unshare", "--mount", "bash", "-c", script, f"{folder}/cdi", *command], check=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=_SECONDS_MAX).stdout


class _Daemon:
    """The packages' daemon, outside of the container, with the socket where /run/uroce will be."""

    def __init__(self, root, folder):
        script = ('mount --bind "$1" "$0/run" && mkdir -p "$0/proc" && mount -t proc proc "$0/proc" && exec chroot "$0" '
                  f"uroced --config /etc/uroce/uroce.toml --socket /run/uroce.sock --ready-fd 1")
        self._process = subprocess.Popen(["unshare", "--mount", "bash", "-c", script, root, folder], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self):
        if not self._process.stdout.read(1):
            raise AssertionError(self._process.stderr.read().decode())
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.communicate(timeout=30)
