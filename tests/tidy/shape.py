"""Sizes, openings, leftovers, READMEs."""

import re

_LINES_MAX = 400
_LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_WALL_CLOCK = re.compile(r"\b(CLOCK_REALTIME\w*|system_clock|gettimeofday|pthread_\w+_timed\w+|sem_timedwait|std::time|wall_clock\.h)\b")
_OF_THE_CARD = ("base/", "abi/", "mmu/", "dataplane/", "control/", "verbs_shim/", "apps/")
# When a packet or an error was; a list of names; what verbs calls wall clock.
_FOR_PEOPLE = ("apps/capture/recorder.cc", "apps/report/gathered.cc", "base/time/wall_clock.h", "control/reports/error_log.cc",
               "control/reports/sampler.cc", "control/start/system_calls.def", "verbs_shim/rings/cq_ex.cc")
_BANNER = re.compile(r"^\s*(//|#)\s*[-=*#/]{8,}")
# The page about a folder's subfolders may stand in the folder itself.
_NO_README = re.compile(r"^(\.|\.ci|debian|debian/.*|docs|apps/man|tests/(runner|tidy|unit|unit/[\w/]+|e2e/\w+|bench/parts)|"
                        r"tests/fuzz/corpus.*|dts/\w+|dts/local/.*|tests/data.*)$")
_PREFETCH = "base/prefetch.h"


def _too_long(files):
    for path, text in files.items():
        lines = text.count("\n")
        if lines > _LINES_MAX:
            yield f"{path}: {lines} lines; split it at {_LINES_MAX}"


def _pragma(files):
    for path, text in files.items():
        if path.endswith(".h") and "#pragma once" not in text:
            yield f"{path}: has no #pragma once"


def _opening(files):
    """A file opens with what it is: a comment before the first code. An x.cc beside its x.h leaves that to the header."""
    for path, text in files.items():
        if not path.endswith((".h", ".cc")) or path.endswith("_test.cc") or path.endswith(".cc") and path[:-2] + "h" in files:
            continue
        head = [line for line in text.splitlines()[:12] if line.strip() and not line.startswith("#")]
        if head and not head[0].lstrip().startswith(("//", "/*")):
            yield f"{path}: doesn't open with a comment that says what it is"


def _leftovers(files):
    for path, text in files.items():
        if path.startswith("tests/tidy/"):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if _LEFTOVER.search(line):
                yield f"{path}:{number}: leftover: {line.strip()[:80]}"
            elif _BANNER.match(line):
                yield f"{path}:{number}: banner"


def _wall_clock(files):
    """The wall clock may be set: nothing may wait by it. Times that are only displayed may use it."""
    for path, text in files.items():
        if not path.startswith(_OF_THE_CARD) or path in _FOR_PEOPLE:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if _WALL_CLOCK.search(line):
                yield f"{path}:{number}: a clock that may jump: {line.strip()[:80]}"


def _prefetches(files):
    """The compiler silently removes functions that contain only prefetches: see the header."""
    for path, text in files.items():
        if path.endswith((".h", ".cc")) and path != _PREFETCH:
            for number, line in enumerate(text.splitlines(), 1):
                if "__builtin_prefetch" in line:
                    yield f"{path}:{number}: prefetch by {_PREFETCH}"


def _readmes(paths):
    folders = {path.rsplit("/", 1)[0] if "/" in path else "." for path in paths}
    have = {path.rsplit("/", 1)[0] for path in paths if path.endswith("/README.md")}
    for folder in sorted(folders - have):
        if not _NO_README.match(folder):
            yield f"{folder}/: has no README.md"


def check(files, paths):
    """`files`: {path: text} of source files of any language; `paths`: all files of the tree."""
    return {
        "file sizes": list(_too_long(files)),
        "headers have #pragma once": list(_pragma(files)),
        "files open with what they are": list(_opening(files)),
        "nothing waits by the wall clock": list(_wall_clock(files)),
        "prefetches aren't left out": list(_prefetches(files)),
        "no leftovers or banners": list(_leftovers(files)),
        "a README in each folder": list(_readmes(paths)),
    }
