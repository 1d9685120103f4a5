"""The build folders: made once, brought up to date on every run."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections import defaultdict

from report import Case

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

_SANITIZED = ["-Db_lundef=false", "-Dbuildtype=debugoptimized", "-Doptimization=1"]
# Options of meson, and the compiler. Reports of the sanitizers need lines, not variables.
OPTIONS = {
    "build": ([], "g++"),
    # One build for the tests and the fuzzers, by the second compiler.
    "build-asan": (["-Db_sanitize=address,undefined", "-Dfuzzers=true", "-Dcpp_args=-gline-tables-only", *_SANITIZED],
                   "clang++"),
    "build-tsan": (["-Db_sanitize=thread", "-Dcpp_args=-g1", *_SANITIZED], "g++"),
    # Never compiled: clang-tidy asks it how each source would be by itself.
    "build-tidy": (["-Dunity=off"], "g++"),
}
BUILD_SECONDS_MAX = 4500  # beside e2e, whose daemons and programs poll, a build gets a third of the processors
_in_use = defaultdict(threading.Lock)  # by folder: parts that run side by side share builds


def _environment(compiler):
    """ccache where it is there. Clones share what it keeps: paths in the tree are relative to it."""
    if not shutil.which("ccache"):
        return {**os.environ, "CXX": compiler}
    return {"CCACHE_BASEDIR": ROOT, "CCACHE_NOHASHDIR": "1", **os.environ, "CXX": f"ccache {compiler}"}


class Build:
    """One build folder."""

    def __init__(self, name):
        self.name = name
        self.folder = os.path.join(ROOT, name)
        self.logs = os.path.join(self.folder, "test-logs")
        self._targets = None

    def log_path(self, *parts):
        path = os.path.join(self.logs, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def configure(self):
        """Returns the Case of the configuration. Brings an old one up to date with the meson.build files."""
        options, _ = OPTIONS[self.name]
        if os.path.exists(os.path.join(self.folder, "build.ninja")):
            return self._run("configure", ["ninja", "-C", self.folder, "build.ninja"])
        return self._run("configure", ["meson", "setup", self.folder, ROOT, *options])

    def make(self, targets, jobs):
        """Builds `targets` (paths below the folder; empty: all)."""
        return self._run("build", ["ninja", "-C", self.folder, "-j", str(jobs), *targets])

    def introspect(self, what):
        answer = subprocess.run(["meson", "introspect", self.folder, f"--{what}"], check=True,
                                capture_output=True, text=True)
        return json.loads(answer.stdout)

    def path_in(self, absolute):
        return os.path.relpath(absolute, self.folder)

    def _run(self, what, command):
        log = self.log_path(f"{what}.log")
        environment = _environment(OPTIONS[self.name][1])
        start = time.monotonic()
        with _in_use[self.folder], open(log, "w", encoding="utf-8") as out:
            try:
                code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=environment,
                                      stdin=subprocess.DEVNULL, timeout=BUILD_SECONDS_MAX,
                                      check=False).returncode
                reason = _first_error(log) if code else ""
            except subprocess.TimeoutExpired:
                code, reason = -1, f"took longer than {BUILD_SECONDS_MAX} s"
        return Case(f"{what} {self.name}", "failed" if code else "passed",
                    time.monotonic() - start, reason, log)


def _first_error(log):
    with open(log, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if "error:" in line or "ERROR:" in line or "FAILED:" in line:
                return line.strip()[:300]
    return "failed"
