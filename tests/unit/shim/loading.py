#!/usr/bin/env python3
"""loading.py SHIM LINKED PLAIN: the shim is loaded by linking, LD_LIBRARY_PATH and LD_PRELOAD, the real library never.

LINKED is a program linked with the shim, PLAIN one linked with Debian's library."""

import os
import shutil
import subprocess
import sys
import tempfile


def libraries(program, **environment):
    """The libibverbs objects that the dynamic linker maps for the program."""
    environment = {"PATH": os.environ["PATH"], "LD_TRACE_LOADED_OBJECTS": "1", **environment}
    out = subprocess.run([program], env=environment, check=True, capture_output=True, text=True).stdout
    return {os.path.realpath(word) for line in out.splitlines() if "libibverbs" in line
            for word in line.split() if word.startswith("/")}


def stderr_of(program, **environment):
    environment = {"PATH": os.environ["PATH"], "UROCE_SOCKET": "/nowhere/uroce.sock", **environment}
    return subprocess.run([program], env=environment, capture_output=True, text=True, check=False).stderr


def expect_own_choice(linked):
    """The environment of a program with more rights than its user (set-gid) doesn't determine its daemon's socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(linked, folder)
        os.chown(program, 0, 1)
        os.chmod(program, 0o2755)
        said = subprocess.run([program], env={"UROCE_SOCKET": "/nowhere/uroce.sock"}, capture_output=True, text=True,
                              check=False, user=65534, group=65534, extra_groups=[], cwd="/").stderr
    fine = "uroce.sock" in said and "/nowhere" not in said
    print(f"set-gid: {'ok' if fine else f'said {said!r}'}")
    return fine


def main():
    shim, linked, plain = map(os.path.abspath, sys.argv[1:])
    folder = os.path.dirname(shim)
    failures = 0
    ways = {
        "link": (linked, {}),
        "LD_LIBRARY_PATH": (plain, {"LD_LIBRARY_PATH": folder}),
        "LD_PRELOAD": (plain, {"LD_PRELOAD": shim}),
    }
    for way, (program, environment) in ways.items():
        preload = os.environ.get("SANITIZER_PRELOAD")
        if preload:
            environment["LD_PRELOAD"] = ":".join(filter(None, [preload, environment.get("LD_PRELOAD")]))
        loaded = libraries(program, **environment)
        said = stderr_of(program, **environment)
        quiet = stderr_of(program, UROCE_QUIET="1", **environment)
        fine = loaded == {shim} and "/nowhere/uroce.sock" in said and "uroce.sock" not in quiet
        print(f"{way}: {'ok' if fine else f'loaded {loaded}, said {said!r}, then {quiet!r}'}")
        failures += not fine
    if os.getuid() == 0 and not os.environ.get("SANITIZER_PRELOAD"):
        failures += not expect_own_choice(linked)
    return failures


if __name__ == "__main__":
    sys.exit(main())
