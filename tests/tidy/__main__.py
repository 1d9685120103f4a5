"""Checks the rules of style.md and docs/architecture.md.

  /usr/bin/python3 tests/tidy                     all; --fast leaves clang-tidy out, --changed asks it about changed files only
  /usr/bin/python3 tests/tidy dataplane/wire      only what is below these folders (not the rules about the whole tree)
"""

import argparse
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "runner"))

import changes  # noqa: E402  (the path above comes first)
import clang_tools  # noqa: E402
import dts_suites  # noqa: E402
import layering  # noqa: E402
import named_tests  # noqa: E402
import shape  # noqa: E402
import ways  # noqa: E402
from report import Case, close_part  # noqa: E402

_SOURCE = (".h", ".cc", ".c", ".def", ".py", ".sh", ".build")
_CPP = (".h", ".cc")


def _options():
    parser = argparse.ArgumentParser(prog="tests/tidy", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("below", nargs="*", help="folders or files to check")
    parser.add_argument("--report", help="write the cases here, for tests/run.sh")
    parser.add_argument("--part", help=argparse.SUPPRESS)  # always tidy
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--fast", action="store_true", help="without clang-tidy")
    parser.add_argument("--changed", action="store_true",
                        help="clang-tidy only over what differs from origin/main, or from where this branch left it")
    return parser.parse_args()


def _tree():
    """Paths of the files that git knows or would add."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            text=True, capture_output=True, check=True).stdout.split("\n")
    return [path for path in listed if path and os.path.isfile(os.path.join(ROOT, path))]


def _texts(paths):
    texts = {}
    for path in paths:
        with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as text:
            texts[path] = text.read()
    return texts


def _run(options):
    paths = _tree()
    below = tuple(os.path.relpath(os.path.abspath(item), ROOT) for item in options.below)
    picked = [path for path in paths if not below or path.startswith(below)]
    sources = _texts(path for path in picked if path.endswith(_SOURCE) or path == "tests/run.sh")
    cpp = {path: text for path, text in sources.items() if path.endswith(_CPP)}
    results = {**layering.check(cpp), **shape.check(sources, [] if below else paths),
               **clang_tools.check_format(ROOT, list(cpp))}
    if not below:
        results.update(ways.check(ROOT))
        results.update(named_tests.check(ROOT, cpp))
        results.update(dts_suites.check({path: text for path, text in sources.items()
                                  if path.startswith("dts/") and path.endswith(".py")}))
    cases = []
    if not options.fast:
        limit_to = set(picked) if below else None
        if options.changed:
            base, limit_to = changes.since_base(ROOT, cpp)
            if not limit_to:
                cases = [Case("clang-tidy", "skipped", 0, f"no source differs from {base}")]
        results.update(clang_tools.check_sources(ROOT, paths, options.jobs, limit_to))
    return results, cases


def main():
    options = _options()
    results, cases = _run(options)
    for name, problems in results.items():
        for problem in problems:
            print(f"  {problem}")
        reason = f"{len(problems)} found; the first: {problems[0]}" if problems else ""
        cases.append(Case(name, "failed" if problems else "passed", 0, reason))
    return close_part(cases, options.report)


if __name__ == "__main__":
    sys.exit(main())
