#!/usr/bin/env python3
"""symbols.py SHIM FOLDER: the shim exports exactly what symbols.table (in FOLDER) lists, all that Debian's library exports and all
that installed programs and libraries import; and it is never unloaded."""

import glob
import os
import re
import subprocess
import sys

_LIBRARIES = f"/usr/lib/{os.uname().machine}-linux-gnu"
_REFERENCE = f"{_LIBRARIES}/libibverbs.so.1"
# Where users of libibverbs are installed: rdma-core, perftest, UCX, libfabric, DPDK, pyverbs, MPI.
_USERS = ["/usr/bin/*", "/usr/sbin/*", f"{_LIBRARIES}/*.so*", f"{_LIBRARIES}/libibverbs/*.so", f"{_LIBRARIES}/ucx/*.so*",
          f"{_LIBRARIES}/libfabric/*.so*", f"{_LIBRARIES}/openmpi/lib/openmpi*/*.so", f"{_LIBRARIES}/dpdk/pmds-*/*mlx*.so*",
          "/usr/lib/python3/dist-packages/pyverbs/**/*.so"]
_NODE = re.compile(r"\bIBVERBS_\w+(?:\.\d+)?$")


def symbols(path):
    """The object's defined and imported names, with their versions."""
    lines = subprocess.run(["readelf", "-W", "--dyn-syms", path], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    rows = [row for row in map(str.split, lines) if len(row) > 7 and row[4] in ("GLOBAL", "WEAK")]
    return ({row[7] for row in rows if row[6] != "UND"},
            {row[7] for row in rows if row[6] == "UND" and _NODE.search(row[7])})


def users(root=""):
    """Objects under `root` that need libibverbs.so.1."""
    found = (path for pattern in _USERS for path in glob.glob(root + pattern, recursive=True) if not os.path.islink(path))
    for path in sorted(set(found)):
        if os.path.isfile(path) and os.access(path, os.R_OK) and not os.path.basename(path).startswith("libibverbs.so"):
            with open(path, "rb") as file:
                content = file.read()
            if content.startswith(b"\x7fELF") and b"libibverbs.so.1\0" in content:
                yield path


def bound(names):
    """Names as a program binds them, whether or not their version is the default one."""
    return {name.replace("@@", "@") for name in names}


def missing(ours):
    wanted = {_REFERENCE: symbols(_REFERENCE)[0]} if os.path.exists(_REFERENCE) else {}
    wanted |= {path: symbols(path)[1] for path in users()}
    print(f"compared with what {len(wanted)} installed objects have or want")
    return [f"missing for {path}: {name}" for path, names in wanted.items() for name in sorted(bound(names) - bound(ours))]


def main():
    shim, folder = sys.argv[1:]
    sys.path.append(folder)
    from table import Table  # pylint: disable=import-outside-toplevel  (its folder is an argument)
    ours = symbols(shim)[0]
    table = Table(os.path.join(folder, "symbols.table")).exported()
    problems = [f"not in the table: {name}" for name in sorted(ours - table)]
    problems += [f"only in the table: {name}" for name in sorted(table - ours)]
    problems += missing(ours)
    if "NODELETE" not in subprocess.run(["readelf", "-W", "--dynamic", shim], check=True, capture_output=True, text=True).stdout:
        problems.append("dlclose would unload it under its own threads: -z nodelete is missing")
    print(f"{len(ours)} names and nodes", *problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
