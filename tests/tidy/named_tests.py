"""The tests that docs/threats.md names exist: `Suite.Test`, `Suite.Begin…` and `Suite.*`."""

import os
import re

_DOCUMENT = os.path.join("docs", "threats.md")
_NAMED = re.compile(r"`([A-Z]\w+)\.([A-Z]\w*)?([*…])?`")
_TEST = re.compile(r"\bTEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)")


def check(root, files):
    """`files`: texts by path."""
    tests = {}  # names by suite
    for path, text in files.items():
        if path.endswith("_test.cc"):
            for suite, name in _TEST.findall(text):
                tests.setdefault(suite, []).append(name)
    with open(os.path.join(root, _DOCUMENT), encoding="utf-8") as text:
        return {"named tests": list(_problems(text.read(), tests))}


def _problems(document, tests):
    for suite, begin, more in _NAMED.findall(document):
        if not any(name.startswith(begin) if more else name == begin for name in tests.get(suite, [])):
            yield f"{_DOCUMENT}: there is no test {suite}.{begin}{more}"
