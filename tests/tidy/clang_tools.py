"""clang-format over all C++ files; clang-tidy over the sources of libraries, shim and apps.

Builds compile several sources as one, so each is read by itself here: a missing include is found. clang-tidy takes several
seconds a source, so it leaves out the tests (the compiler's warnings and the sanitizers see those), which the compiler
only reads. What was clean is remembered: a stamp in the build folder, keyed by the source and every header of ours.
"""

import hashlib
import json
import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor

from builds import Build

_SECONDS_MAX = 600


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


def _tidy_command(root, build, source, _):
    return ["clang-tidy", "-quiet", "-p", build, "-extra-arg=-Wno-unknown-warning-option", source], root


def _read_command(_root, _build, _source, entry):
    words = [word for word in shlex.split(entry["command"]) if word not in ("ccache", "-MD")]
    for flag in ("-MQ", "-MF", "-o"):
        at = words.index(flag)
        del words[at:at + 2]
    return [*words, "-fsyntax-only", "-fdiagnostics-color=never"], entry["directory"]


def _problems(root, source, command, folder):
    try:
        answer = subprocess.run(command, cwd=folder, text=True, capture_output=True, check=False, timeout=_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return [f"{source}: {command[0]} took longer than {_SECONDS_MAX} s"]
    found = [line.replace(root + "/", "").removeprefix("build-tidy/").removeprefix("../")
             for line in (answer.stdout or answer.stderr).splitlines() if " error: " in line or " warning: " in line]
    if answer.returncode and not found:
        found = [f"{source}: {command[0]} failed: {answer.stderr.strip()[:200]}"]
    return found


def check_sources(root, paths, jobs, limit_to=None):
    """Of all sources, or of those in `limit_to`."""
    build = Build("build-tidy")
    configured = build.configure()
    if configured.outcome == "failed":
        return {configured.name: [configured.reason]}
    with open(os.path.join(build.folder, "compile_commands.json"), encoding="utf-8") as text:
        compiled = {os.path.relpath(os.path.join(entry["directory"], entry["file"]), root): entry
                    for entry in json.load(text)}
    sources = sorted(path for path in paths if path in compiled and path.endswith(".cc")
                     and (limit_to is None or path in limit_to))
    headers = _digest(root, [path for path in paths if path.endswith((".h", ".def"))] + [".clang-tidy"])
    stamps = os.path.join(build.folder, "tidy-stamps")
    os.makedirs(stamps, exist_ok=True)

    def checked(source):
        stamp = os.path.join(stamps, hashlib.sha256((headers + _digest(root, [source])).encode()).hexdigest())
        if os.path.exists(stamp):
            return []
        make_command = _read_command if source.startswith("tests/") else _tidy_command
        found = _problems(root, source, *make_command(root, build.folder, source, compiled[source]))
        if not found:
            with open(stamp, "w", encoding="utf-8"):
                pass
        return found

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        results = list(pool.map(checked, sources))
    # One header may be reported by many sources.
    return {_case_name(source): list(dict.fromkeys(found)) for source, found in zip(sources, results)}


def _case_name(source):
    return f"{source} by itself" if source.startswith("tests/") else f"clang-tidy {source}"
