#!/usr/bin/env python3
"""symbols.py SHIM REFERENCE: the shim exports exactly the names, kinds and versions of Debian's library,
and is never unloaded."""

import os
import subprocess
import sys


def exported(library):
    lines = subprocess.run(["readelf", "-W", "--dyn-syms", library], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    rows = (line.split() for line in lines)
    # Default versions only: the twins of 1.0 are for programs of before 2007.
    return {(row[3], row[7]) for row in rows if len(row) > 7 and row[6] != "UND" and "@@" in row[7]}


def main():
    shim, reference = sys.argv[1:]
    if not os.path.exists(reference):
        print(f"{reference} isn't installed: nothing to compare with")
        return 77
    ours, theirs = exported(shim), exported(reference)
    for kind, name in sorted(theirs - ours):
        print(f"missing: {kind} {name}")
    for kind, name in sorted(ours - theirs):
        print(f"foreign: {kind} {name}")
    stays = "NODELETE" in subprocess.run(["readelf", "-W", "--dynamic", shim], check=True, capture_output=True,
                                         text=True).stdout
    if not stays:
        print("dlclose would unload it under its own threads: -z nodelete is missing")
    return 0 if ours == theirs and stays else 1


if __name__ == "__main__":
    sys.exit(main())
