"""A root of Debian 12 for arm64, extracted and never run here: what the cross compiler links, and what the emulated machine starts from."""

import fcntl
import os
import shutil
import subprocess

ARCHIVE = os.environ.get("UROCE_DEBIAN_ARCHIVE", "http://deb.debian.org/debian")
_SUITE = "bookworm"
_FETCH_SECONDS_MAX = 1800
_STEP_SECONDS_MAX = 120
_KEPT = "complete"  # a file beside the root that names what is in it
# Beside those of apps/packages.txt in the group `build` whose names end so: headers and libraries.
_DEVELOPMENT = "-dev"
_COMPILERS_OWN = ("libclang-rt-14-dev",)  # for this machine's clang
_FURTHER = ("libc6-dev", "libstdc++-12-dev", "nlohmann-json3-dev", "ibverbs-utils", "perftest", "iproute2", "busybox-static", "kmod",
            "procps", "linux-image-arm64")


class Root:
    """`path` is the root, `kernel` the image to boot; `modules_of()` finds the files of modules."""

    def __init__(self, tree, log):
        folder = os.environ.get("UROCE_ARM64") or os.path.expanduser("~/.cache/uroce/arm64")
        os.makedirs(folder, exist_ok=True)
        self.path, self._log = os.path.join(folder, "root"), log
        packages = _packages(os.path.join(tree, "apps", "packages.txt"))
        with open(os.path.join(folder, "lock"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._make(os.path.join(folder, _KEPT), packages)
        self.release = max(os.listdir(os.path.join(self.path, "lib", "modules")))
        self.kernel = os.path.join(self.path, "boot", f"vmlinuz-{self.release}")

    def modules_of(self, *names):
        """The files of these modules and of those that they need, in the order in which they are loaded."""
        found = []
        for name in names:
            shown = subprocess.run(["modprobe", "--show-depends", "--dirname", self.path, "--set-version", self.release, name],
                                   check=True, capture_output=True, text=True, timeout=_STEP_SECONDS_MAX, env=_environment()).stdout
            paths = [line.split()[1] for line in shown.splitlines() if line.startswith("insmod ")]
            found += [path for path in paths if path not in found]
        return found

    def _make(self, kept, packages):
        wanted = " ".join(packages)
        if os.path.exists(kept):
            with open(kept, encoding="ascii") as text:
                if text.read() == wanted:
                    return
            os.remove(kept)
        shutil.rmtree(self.path, ignore_errors=True)
        self._run(_FETCH_SECONDS_MAX, "mmdebstrap", "--architecture=arm64", "--variant=extract", "--mode=root",
                  f"--include={','.join(packages)}", _SUITE, self.path, ARCHIVE)
        (release,) = os.listdir(os.path.join(self.path, "lib", "modules"))
        self._run(_STEP_SECONDS_MAX, "depmod", "--basedir", self.path, release)
        with open(kept, "w", encoding="ascii") as text:
            text.write(wanted)

    def _run(self, seconds_max, *command):
        with open(self._log, "ab") as log:
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, timeout=seconds_max,
                           env=_environment())


def _packages(table):
    with open(table, encoding="utf-8") as lines:
        rows = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    development = [row[0] for row in rows if row[1] == "build" and row[0].endswith(_DEVELOPMENT) and row[0] not in _COMPILERS_OWN]
    return sorted({*development, *_FURTHER})


def _environment():
    return {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
