"""Every reason that our code can give (drop, NAK code, completion status) was given to some test of a run.

The possible reasons are read from the sources; those given were written by test programs into a folder (tests/reasons/README.md).
"""

import os
import re

from builds import ROOT
from report import Case

_SOURCES = ("dataplane", "control", "mmu")
_DROP_LINE = re.compile(r"^UROCE_DROP\((k\w+),", re.MULTILINE)
_CASE = "every drop reason, NAK code and completion status is given to some test"


class Reasons:
    """The folder of one run."""

    def __init__(self, build):
        self.folder = build.log_path("reasons", "")
        self.environment = {"UROCE_REASONS": self.folder}

    def forget_all_but(self, programs):
        """Before a run: these programs don't run again, and the reasons they met before still count."""
        for name in os.listdir(self.folder):
            if name.rsplit("-", 1)[0] not in programs:
                os.remove(os.path.join(self.folder, name))

    def case(self):
        met = {line for name in os.listdir(self.folder) for line in _text(os.path.join(self.folder, name)).splitlines()}
        missing = sorted(f"{reason} ({line})" for line, reason in _possible().items() if line not in met)
        if not missing:
            return Case(_CASE, "passed", 0)
        return Case(_CASE, "failed", 0, f"{len(missing)} that no test met: {', '.join(missing)}", self.folder)


def _text(path):
    with open(path, encoding="utf-8") as text:
        return text.read()


def _sources():
    return {path: _text(path) for top in _SOURCES for folder, _, names in os.walk(os.path.join(ROOT, top))
            for path in (os.path.join(folder, name) for name in names) if path.endswith((".h", ".cc"))}


def _numbers(text, enum):
    body = re.search(rf"enum class (?:\[\[\w+\]\] )?{enum}\b[^{{;]*\{{([^}}]*)\}}", text).group(1)
    found = re.findall(r"\b(k[A-Z]\w*) = (\d+)", re.sub(r"//[^\n]*", "", body))
    return {name: int(number) for name, number in found}


def _possible():
    """What a test must write (`drop 3`), and the reason that it stands for."""
    sources = _sources()
    drops = _DROP_LINE.findall(_text(os.path.join(ROOT, "dataplane", "wire", "drop.def")))
    kinds = [("drop", "Drop", {name: number for number, name in enumerate(drops, 1)}, lambda path: True),
             ("status", "WcStatus", _numbers(_text(os.path.join(ROOT, "abi", "completion.h")), "WcStatus"),
              lambda path: True)]
    naks = _numbers(_text(os.path.join(ROOT, "dataplane", "wire", "headers.h")), "Nak")
    kinds += [("nak_sent", "Nak", naks, lambda path: "completer" not in path),
              ("nak_received", "Nak", naks, lambda path: "completer" in path)]
    possible = {}
    for word, enum, names, fits in kinds:
        text = "\n".join(text for path, text in sources.items() if fits(path))
        for name, number in names.items():
            if re.search(rf"\b{enum}::{name}\b", text):
                possible[f"{word} {number}"] = f"{enum}::{name}"
    possible.pop("status 0", None)
    return possible
