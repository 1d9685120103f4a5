"""One release of Debian: a root with the build dependencies, the packages built in it, and a clean root in which they are installed."""

import glob
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

from report import Case

ARCHIVE = os.environ.get("UROCE_DEBIAN_ARCHIVE") or "http://deb.debian.org/debian"
_SECONDS_MAX = 3600  # building on two busy cores
# Where debian/tests runs: its own mounts, processes and network, of which only the loopback interface is up.
_ISOLATED = ["unshare", "--mount", "--pid", "--fork", "--net", "--kill-child"]


def archive_has(suite):
    try:
        with urllib.request.urlopen(f"{ARCHIVE}/dists/{suite}/InRelease", timeout=20) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def _listed(path, field):
    """Package names in a field of debian/control or debian/tests/control."""
    with open(path, encoding="utf-8") as control:
        text = re.sub(r"^#.*\n", "", control.read(), flags=re.MULTILINE)
    names = set()
    for found in re.findall(rf"^{field}:((?:.*)(?:\n[ \t].*)*)", text, flags=re.MULTILINE):
        names |= {re.sub(r"\s*[(|].*", "", name).strip() for name in found.split(",")}
    return sorted(name for name in names if name and not name.startswith("$"))


class Release:
    def __init__(self, tree, suite, folder, jobs):
        self._tree, self.suite, self._jobs = tree, suite, jobs
        self._builder = os.path.join(folder, f"{suite}-builder")
        self.root = os.path.join(folder, f"{suite}-root")
        self._packages = os.path.join(folder, f"{suite}-packages")
        self._logs = os.path.join(tree, "build", "test-logs", "packages")
        os.makedirs(self._logs, exist_ok=True)

    def log_path(self, step):
        return os.path.join(self._logs, f"{step}_{self.suite}.log")

    def case(self, step):
        """Runs a step of this release; its exception is the reason of the failure."""
        name, start = f"{step.__name__}_{self.suite}", time.monotonic()
        log = self.log_path(step.__name__)
        try:
            with open(log, "w", encoding="utf-8") as out:
                step(out)
        except subprocess.CalledProcessError as error:
            with open(log, encoding="utf-8", errors="replace") as text:
                last = (text.read().strip().splitlines() or [""])[-1]
            return Case(name, "failed", time.monotonic() - start, f"exit code {error.returncode}: {last}", log)
        except (subprocess.TimeoutExpired, OSError, AssertionError) as error:
            return Case(name, "failed", time.monotonic() - start, str(error), log)
        return Case(name, "passed", time.monotonic() - start, "", log)

    def make(self, out):
        """dpkg-buildpackage of the files that git knows."""
        self._bootstrap(self._builder, _listed(f"{self._tree}/debian/control", "Build-Depends") + ["build-essential", "lintian"], out)
        source = f"{self._builder}/build/uroce"
        shutil.rmtree(f"{self._builder}/build", ignore_errors=True)
        os.makedirs(source)
        files = subprocess.run(["git", "ls-files", "-z"], cwd=self._tree, capture_output=True, check=True).stdout
        subprocess.run(["xargs", "-0", "cp", "--parents", "-t", source], cwd=self._tree, input=files, check=True)
        self._in(self._builder, ["bash", "-c", f"cd /build/uroce && dpkg-buildpackage -us -uc -b -j{self._jobs}"], out)
        shutil.rmtree(self._packages, ignore_errors=True)
        os.makedirs(self._packages)
        made = glob.glob(f"{self._builder}/build/*.deb")
        for package in made:
            shutil.copy(package, self._packages)
        names = {os.path.basename(package).split("_")[0] for package in made}
        assert {"uroce", "libibverbs-uroce", "uroce-dev"} <= names, f"packages made: {sorted(names)}"
        with open(f"{self._tree}/meson.build", encoding="utf-8") as meson:
            version = re.search(r"version: '([\d.]+)'", meson.read()).group(1)
        assert all(f"_{version}_" in package for package in made), f"debian/changelog's version isn't {version}: {made}"

    def lint(self, out):
        """lintian reports nothing, warnings included."""
        self._in(self._builder, ["bash", "-c", "cd /build && lintian --allow-root --fail-on error,warning --info *.changes"], out)

    def install(self, out):
        """apt-get installs them in a root that had only Debian's."""
        wanted = [name for name in _listed(f"{self._tree}/debian/tests/control", "Depends") if "uroce" not in name]
        shutil.rmtree(self.root, ignore_errors=True)
        self._bootstrap(self.root, wanted + ["libcap2-bin", "systemd-sysv"], out)
        os.makedirs(f"{self.root}/packages")
        for package in glob.glob(f"{self._packages}/*.deb"):
            if "-dbgsym_" not in package:
                shutil.copy(package, f"{self.root}/packages")
        self._in(self.root, ["bash", "-c", "apt-get update && apt-get install -y --no-install-recommends /packages/*.deb"], out)
        shutil.rmtree(f"{self.root}/source", ignore_errors=True)
        for part in ("apps", "debian"):
            shutil.copytree(f"{self._tree}/{part}", f"{self.root}/source/{part}", symlinks=True)

    def quickstart(self, out):
        """Its programs, over two daemons of the packages."""
        self._in(self.root, ["bash", "-c", "ip link set lo up && cd /source && apps/quickstart.sh --installed"], out, _ISOLATED)

    def programs(self, out):
        """What an ordinary user's programs find."""
        self._in(self.root, ["bash", "-c", "ip link set lo up && cd /source && debian/tests/programs"], out, _ISOLATED)

    def _bootstrap(self, root, packages, out):
        if os.path.isdir(f"{root}/usr"):
            return
        self._run(["mmdebstrap", "--variant=apt", f"--include={','.join(sorted(set(packages)))}", self.suite, root, ARCHIVE], out)

    def _in(self, root, command, out, isolated=("unshare", "--mount")):
        """In that root, with the file systems that programs expect there."""
        mounts = ("mount -t proc proc {0}/proc && mount -t sysfs sysfs {0}/sys && mount --rbind /dev {0}/dev && "
                  "mount -t tmpfs tmpfs {0}/run && mount -t tmpfs -o mode=1777 tmpfs {0}/tmp && exec chroot \"$@\"").format(root)
        self._run([*isolated, "bash", "-c", mounts, "bash", root, *command], out)

    @staticmethod
    def _run(command, out):
        out.write(f"$ {' '.join(command)}\n")
        out.flush()
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                       "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"}
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=True,
                       timeout=_SECONDS_MAX, env=environment)
