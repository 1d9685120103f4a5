"""Runs all parts of the tests and closes with one line of counts. Started by tests/run.sh."""

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from parts import PARTS, TRACKS
from report import Case, counts, print_case, print_closing


def _options():
    parser = argparse.ArgumentParser(prog="tests/run.sh", description="Runs every test of uroce.")
    parser.add_argument("--part", action="append", choices=list(PARTS), help="only this part, one after the other (repeatable)")
    parser.add_argument("--list", action="store_true", help="say what the parts are")
    parser.add_argument("--long", action="store_true", help="soaks too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, help="how much to run at a time")
    return parser.parse_args()


def _run_part(name, options):
    """Parts run side by side, so every line that one prints says whose it is."""
    print(f"== {name}: {PARTS[name].__doc__}", flush=True)
    start = time.monotonic()
    try:
        cases = PARTS[name](options)
    except Exception as error:  # a part that breaks must not hide the others
        cases = [Case(f"{name} part", "failed", 0, f"{type(error).__name__}: {error}")]
    for case in cases:
        print_case(name, case)
    print(f"   {name}: {counts(cases)} in {time.monotonic() - start:.0f} s", flush=True)
    return cases


def _run_all(options):
    start = time.monotonic()
    with ThreadPoolExecutor(len(TRACKS)) as pool:
        tracks = [pool.submit(lambda names: {name: _run_part(name, options) for name in names}, names) for names in TRACKS]
    cases = {name: part for track in tracks for name, part in track.result().items()}
    print(f"All parts in {time.monotonic() - start:.0f} s", flush=True)
    return [(name, cases[name]) for name in PARTS]


def main():
    options = _options()
    if options.list:
        for name, part in PARTS.items():
            print(f"{name:8} {part.__doc__}")
        return 0
    if not options.part:
        return print_closing(_run_all(options))
    return print_closing([(name, _run_part(name, options)) for name in options.part])


if __name__ == "__main__":
    sys.exit(main())
