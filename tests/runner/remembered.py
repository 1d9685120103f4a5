"""Remembers the inputs of programs that passed. With the same inputs they aren't run again on a developer's machine.

In CI (CI=true) and with --long everything runs. A program that failed, or skipped a case, is never remembered.
"""

import functools
import hashlib
import json
import os
import subprocess
import time

from builds import ROOT

_CODE = (".cc", ".h", ".md")  # files that the program's own file covers, or that aren't read
_PACKAGES = "/var/lib/dpkg/status"  # shared libraries and the programs that tests start


class Remembered:
    """Of one build folder. `always`: nothing is remembered, everything runs."""

    def __init__(self, build, always):
        self._build, self._always = build, always or os.environ.get("CI") == "true"

    def unchanged(self, test, environment):
        """Whether this program passed with its current inputs."""
        if self._always or not os.path.exists(self._path(test)):
            return False
        with open(self._path(test), encoding="utf-8") as text:
            return text.read() == self._given(test, environment)

    def note(self, test, environment, passed):
        if os.path.exists(self._path(test)):
            os.remove(self._path(test))
        if passed:
            with open(self._path(test), "w", encoding="utf-8") as out:
                out.write(self._given(test, environment))

    def _path(self, test):
        return self._build.log_path("passed", test["name"])

    def _given(self, test, environment):
        digest = hashlib.sha256(_surroundings().encode())
        digest.update(json.dumps([test["cmd"], test["env"], environment], sort_keys=True).encode())
        for path in sorted({*test["cmd"], *test.get("files", [])}):
            if os.path.isfile(path):
                digest.update(_digest(path))
        return digest.hexdigest()


def _digest(path):
    with open(path, "rb") as data:
        return hashlib.file_digest(data, "sha256").digest()


@functools.cache
def _surroundings():
    """The kernel, the packages, and every file of the tree that isn't compiled: captures, cases, scripts."""
    git = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True,
                         capture_output=True, check=False)
    if git.returncode:  # an archive of the tree, or somebody else's clone
        return str(time.time())
    listed = git.stdout.split("\n")
    paths = [os.path.join(ROOT, path) for path in sorted(listed) if path and not path.endswith(_CODE)]
    paths += [_PACKAGES] if os.path.exists(_PACKAGES) else []
    digest = hashlib.sha256(" ".join(os.uname()).encode())
    for path in paths:
        if os.path.isfile(path):
            digest.update(path.encode() + _digest(path))
    return digest.hexdigest()
