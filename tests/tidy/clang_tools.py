"""clang-format over all C++ files; clang-tidy over the sources of libraries, shim and apps.

clang-tidy takes several seconds a source, so it leaves out the tests (the compiler's warnings and the sanitizers see
those) and remembers what was clean: a stamp in the build folder, keyed by the source and every header of ours.
"""

import hashlib
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

_TIDY_SECONDS_MAX = 300


def check_format(root, paths):
    answer = subprocess.run(["clang-format", "--dry-run", "-Werror", *paths], cwd=root, text=True,
                            capture_output=True, check=False)
    return {"clang-format": [line for line in answer.stderr.splitlines() if "error:" in line]}


def _digest(root, paths):
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.encode())
        with open(os.path.join(root, path), "rb") as data:
            digest.update(data.read())
    return digest.hexdigest()


def _tidy_one(root, build, source):
    command = ["clang-tidy", "-quiet", "-p", build, "-extra-arg=-Wno-unknown-warning-option", source]
    try:
        answer = subprocess.run(command, cwd=root, text=True, capture_output=True, check=False,
                                timeout=_TIDY_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return [f"{source}: clang-tidy took longer than {_TIDY_SECONDS_MAX} s"]
    found = [line.replace(root + "/", "").removeprefix("build/").removeprefix("../") for line in answer.stdout.splitlines()
             if " error: " in line or " warning: " in line]
    if answer.returncode and not found:
        found = [f"{source}: clang-tidy failed: {answer.stderr.strip()[:200]}"]
    return found


def check_tidy(root, build, paths, jobs, limit_to=None):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as text:
        compiled = {os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
                    for entry in json.load(text)}
    sources = sorted(path for path in paths if path in compiled and path.endswith(".cc")
                     and not path.startswith("tests/") and (not limit_to or path in limit_to))
    headers = _digest(root, [path for path in paths if path.endswith((".h", ".def")) and not path.startswith("tests/")]
                      + [".clang-tidy"])
    stamps = os.path.join(build, "tidy-stamps")
    os.makedirs(stamps, exist_ok=True)

    def checked(source):
        key = hashlib.sha256((headers + _digest(root, [source])).encode()).hexdigest()
        stamp = os.path.join(stamps, key)
        if os.path.exists(stamp):
            return []
        found = _tidy_one(root, build, source)
        if not found:
            with open(stamp, "w", encoding="utf-8"):
                pass
        return found

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        results = list(pool.map(checked, sources))
    # One header may be reported by many sources.
    return {f"clang-tidy {source}": list(dict.fromkeys(found)) for source, found in zip(sources, results)}
