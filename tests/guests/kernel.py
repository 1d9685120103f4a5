"""Debian's own kernel for guests, unpacked and not installed: fetched once by apt and kept, in ~/.cache/uroce/kernels or where
UROCE_KERNELS says. A case that can't have it is skipped and says why."""

import fcntl
import glob
import os
import re
import shutil
import subprocess
import time
import unittest

_PACKAGE = "linux-image-amd64"  # depends on the current kernel's package
_FETCH_SECONDS_MAX = 300
_STEP_SECONDS_MAX = 120
_KEPT = "complete"  # a file that is there when all the rest is; its time is that of the last use
_UNUSED_SECONDS_MAX = 7 * 24 * 3600


class Kernel:
    """`release` is what `uname -r` says there; `image` the kernel to boot; `modules` the folder of its modules."""

    def __init__(self, setting):
        self._setting = setting
        setting.need("apt-get", "apt-cache", "dpkg-deb", "depmod", "modprobe")
        folder = os.environ.get("UROCE_KERNELS") or os.path.expanduser("~/.cache/uroce/kernels")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # other cases want the same kernel
            self.path = self._kept_or_made(folder)
        self.release = os.path.basename(self.path)
        self.image = os.path.join(self.path, "boot", f"vmlinuz-{self.release}")
        self.modules = os.path.join(self.path, "lib", "modules")

    def files_of(self, *modules):
        """The files of these modules and of those that they need, in the order in which they are loaded."""
        found = []
        for module in modules:
            answer = subprocess.run(["modprobe", "--show-depends", "--dirname", self.path, "--set-version", self.release, module],
                                    capture_output=True, text=True, timeout=_STEP_SECONDS_MAX, check=True, env=_environment())
            paths = [line.split()[1] for line in answer.stdout.splitlines() if line.startswith("insmod ")]
            found += [path for path in paths if path not in found]
        return found

    def _kept_or_made(self, folder):
        """The newest one, or where it can't be had one that was fetched earlier."""
        kept = sorted(glob.glob(os.path.join(folder, "*", _KEPT)), key=os.path.getmtime)
        try:
            release = self._wanted()
            path = os.path.join(folder, release)
            if not os.path.exists(os.path.join(path, _KEPT)):
                shutil.rmtree(path, ignore_errors=True)  # what an interrupted run left
                self._make(path, release)
        except unittest.SkipTest:
            if not kept:
                raise
            path = os.path.dirname(kept[-1])
        os.utime(os.path.join(path, _KEPT))
        _remove_unused(folder)
        return path

    def _wanted(self):
        answer = subprocess.run(["apt-cache", "depends", _PACKAGE], capture_output=True, text=True, timeout=_STEP_SECONDS_MAX,
                                check=False)
        found = re.search(r"Depends: linux-image-(\S+)", answer.stdout)
        if found is None:
            self._setting.skipTest(f"no kernel for guests: apt-cache knows no {_PACKAGE}")
        return found.group(1)

    def _make(self, path, release):
        os.makedirs(path)
        self._step(path, _FETCH_SECONDS_MAX, "apt-get", "-o", "APT::Sandbox::User=root", "download", f"linux-image-{release}")
        for package in glob.glob(os.path.join(path, "*.deb")):
            self._step(path, _STEP_SECONDS_MAX, "dpkg-deb", "--extract", package, path)
            os.remove(package)
        self._step(path, _STEP_SECONDS_MAX, "depmod", "--basedir", path, release)
        with open(os.path.join(path, _KEPT), "w", encoding="ascii"):
            pass

    def _step(self, path, seconds_max, *command):
        with open(os.path.join(self._setting.logs, "kernel"), "ab") as log:
            try:
                code = subprocess.run(command, cwd=path, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                      timeout=seconds_max, check=False, env=_environment()).returncode
            except subprocess.TimeoutExpired:
                code = f"nothing within {seconds_max} s"
        if code != 0:
            self._setting.skipTest(f"no kernel for guests: {' '.join(command)} ended with {code}: see {log.name}")


def _remove_unused(folder):
    """Kernels that no run has used for long: each is 400 MB, and Debian makes another every few weeks."""
    for kept in glob.glob(os.path.join(folder, "*", _KEPT)):
        if time.time() - os.path.getmtime(kept) > _UNUSED_SECONDS_MAX:
            shutil.rmtree(os.path.dirname(kept), ignore_errors=True)


def _environment():
    return {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
