#!/usr/bin/env python3
"""refused.py SHIM FOLDER: every stub of symbols.table (in FOLDER) reports EOPNOTSUPP in the form that its callers expect, and those
that programs may call print the reason with UROCE_DEBUG=1."""

import ctypes
import errno
import os
import subprocess
import sys


def call_all(shim, symbols):
    """Runs in a process of its own, whose stderr is read: prints the stubs that answer otherwise."""
    library = ctypes.CDLL(shim, use_errno=True)
    for symbol in symbols:
        stub = getattr(library, symbol.name)
        stub.restype = ctypes.c_void_p if symbol.returns == "null" else ctypes.c_int
        ctypes.set_errno(0)
        answer = stub()
        wanted = {"errno": errno.EOPNOTSUPP, "-1": -1, "null": None}[symbol.returns]
        if answer != wanted or ctypes.get_errno() != errno.EOPNOTSUPP:
            print(f"{symbol.name}: {answer}, {os.strerror(ctypes.get_errno())}")


def main():
    shim, folder, *child = sys.argv[1:]
    sys.path.append(folder)
    from table import Table  # pylint: disable=import-outside-toplevel  (its folder is an argument)
    table = Table(os.path.join(folder, "symbols.table"))
    # Old symbols of IBVERBS_1.0 are left out: a look-up by name finds the newer version's code.
    stubs = [symbol for symbol in table.symbols if symbol.kind in ("refused", "private")]
    if child:
        call_all(shim, stubs)
        return 0
    done = subprocess.run([sys.executable, *sys.argv, "child"], check=False, capture_output=True, text=True,
                          env={**os.environ, "UROCE_DEBUG": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    wanted = [f"uroce: {symbol.name}: {table.sentences[symbol.why]} (EOPNOTSUPP)" for symbol in stubs if symbol.kind == "refused"]
    print(f"{len(stubs)} stubs, of which {len(wanted)} say why", done.stdout, done.stderr if done.returncode else "", sep="\n")
    return 0 if done.returncode == 0 and not done.stdout and done.stderr.splitlines() == wanted else 1


if __name__ == "__main__":
    sys.exit(main())
