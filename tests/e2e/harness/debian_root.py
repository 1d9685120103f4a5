"""A root of another Debian release: made once by mmdebstrap and kept, in ~/.cache/uroce/roots or where UROCE_DEBIAN_ROOTS says.
Programs run in it in a mount namespace of their own, so nothing is left mounted."""

import fcntl
import os
import shutil
import subprocess
import urllib.error
import urllib.request

from .places import E2E
from .process import Process, wait_until

_ARCHIVE = "http://deb.debian.org/debian"
_ARCHIVE_SECONDS_MAX = 10
_MAKE_SECONDS_MAX = 600
_TREE_SECONDS_MAX = 30
# What test_debian_releases runs; what a program needs comes with it.
RDMA_PACKAGES = ("ibverbs-utils", "perftest", "rdmacm-utils", "rdma-core", "python3-pyverbs", "ucx-utils", "libfabric-bin")
_KEPT = "uroce/packages"  # in a root that is complete: what is installed in it
_FOLDERS = ("shim", "run", "e2e", "logs")  # under /uroce, where we mount ours

# ROOT TREE [FOLDER NAME]... -- COMMAND...: mounts each folder at /uroce/NAME of the root and runs the command there. In place of /sys
# there is that of `uroce tree`.
_ENTER = r"""
set -e
root=$1; tree=$2; shift 2
while [ "$1" != -- ]; do mount --bind "$1" "$root/uroce/$2"; shift 2; done
shift
for folder in proc dev; do mount --rbind /$folder "$root/$folder"; done
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$tree/sys" "$root/sys"
exec chroot "$root" "$@"
"""


class DebianRoot:
    """`name` keeps roots of one release with different packages apart."""

    def __init__(self, setting, suite, packages=RDMA_PACKAGES, name=None):
        self._setting, self._suite, self._packages, self._trees = setting, suite, list(packages), {}
        folder = os.environ.get("UROCE_DEBIAN_ROOTS") or os.path.expanduser("~/.cache/uroce/roots")
        self.path = os.path.join(folder, name or suite)
        setting.need_root("it enters a root of another Debian release")
        os.makedirs(folder, exist_ok=True)
        with open(f"{self.path}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # other cases want the same root
            if not self._is_kept():
                self._make()

    def _is_kept(self):
        try:
            with open(os.path.join(self.path, _KEPT), encoding="ascii") as kept:
                return kept.read().split() == self._packages
        except FileNotFoundError:
            return False

    def _make(self):
        if shutil.which("mmdebstrap") is None:
            self._setting.skipTest("mmdebstrap isn't installed")
        try:
            with urllib.request.urlopen(f"{_ARCHIVE}/dists/{self._suite}/InRelease", timeout=_ARCHIVE_SECONDS_MAX):
                pass
        except (urllib.error.URLError, OSError) as refusal:
            self._setting.skipTest(f"{_ARCHIVE} isn't reachable: {refusal}")
        shutil.rmtree(self.path, ignore_errors=True)
        log = os.path.join(self._setting.logs, f"{self._suite}.mmdebstrap")
        with open(log, "wb") as out:
            # A machine whose clock is off, or a mirror that is late, is no reason to fail: signatures are checked all the same.
            made = subprocess.run(["unshare", "--mount", "--propagation", "private", "mmdebstrap", "--mode=root", "--variant=apt",
                                   '--aptopt=Acquire::Check-Valid-Until "false"', '--aptopt=APT::Install-Recommends "false"',
                                   f"--include={','.join(self._packages)}", self._suite, self.path, _ARCHIVE],
                                  stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=_MAKE_SECONDS_MAX,
                                  check=False)
        if made.returncode != 0:
            self._setting.skipTest(f"mmdebstrap couldn't make a root of {self._suite}: see {log}")
        for name in _FOLDERS:
            os.makedirs(os.path.join(self.path, "uroce", name))
        with open(os.path.join(self.path, _KEPT), "w", encoding="ascii") as kept:
            kept.write("\n".join(self._packages))

    def prefix(self, daemon):
        """The words before a command that runs in the root and uses this daemon."""
        folders = {"shim": daemon.tree.shim, "run": os.path.dirname(daemon.socket), "logs": self._setting.logs,
                   "e2e": E2E}
        mounts = [word for name, folder in folders.items() for word in (folder, name)]
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, "sh", self.path, self._tree(daemon), *mounts,
                "--", "env",
                "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LD_LIBRARY_PATH=/uroce/shim",
                f"UROCE_SOCKET=/uroce/run/{os.path.basename(daemon.socket)}"]

    def _tree(self, daemon):
        """The folder in which the files of this daemon's card are, kept as `uroce run` keeps them."""
        if daemon not in self._trees:
            folder = os.path.join(self._setting.folder, f"{daemon.name}.tree")
            keeper = Process([daemon.tree.uroce, "tree", folder], f"{daemon.name}-tree", self._setting.logs, daemon.environment())
            self._setting.addCleanup(keeper.end)
            card = os.path.join(folder, "sys/class/infiniband/uroce0/ports/1/pkeys/0")
            wait_until(lambda: keeper.ended() or os.path.exists(card), _TREE_SECONDS_MAX, "the tree")
            self._trees[daemon] = folder
        return self._trees[daemon]

    def has(self, path):
        return os.path.exists(os.path.join(self.path, path.lstrip("/")))
