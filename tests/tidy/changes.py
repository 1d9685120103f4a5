"""The changes of a branch, and the sources by which clang-tidy checks them."""

import os
import re
import subprocess

_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def _git(root, *words):
    answer = subprocess.run(["git", *words], cwd=root, text=True, capture_output=True, check=False)
    return answer.stdout.split("\n") if answer.returncode == 0 else []


def since_base(root, texts):
    """Returns (what it is compared with, the sources to look at). `texts`: C++ files by path.

    A clone without the branch `main` is compared with its newest commit.
    """
    for branch in ("origin/main", "main", "HEAD"):
        base = next(iter(_git(root, "merge-base", "HEAD", branch)), "")
        if base:
            break
    else:
        return "a branch: this isn't a clone", set()
    changed = {*_git(root, "diff", "--name-only", base), *_git(root, "ls-files", "--others", "--exclude-standard")}
    return f"{branch} ({base[:10]})", sources_of(changed & set(texts), texts)


def sources_of(changed, texts):
    """A header is checked by way of its own source, or of the first one that includes it."""
    sources = {path for path in changed if path.endswith(".cc")}
    tests_last = sorted((path for path in texts if path.endswith(".cc")), key=lambda path: (path.startswith("tests/"), path))
    for header in sorted(changed - sources):
        own = os.path.splitext(header)[0] + ".cc"
        including = (path for path in tests_last if header in _INCLUDE.findall(texts[path]))
        sources.update([own] if own in texts else [path for path in [next(including, None)] if path])
    return sources
