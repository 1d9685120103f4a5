"""Which folder may include which (docs/architecture.md), read from the #include lines."""

import os
import re

# folder: the folders of ours that it may include, besides itself. Longest match wins.
_MAY_INCLUDE = {
    "base": [],
    "abi": ["base"],
    "shares": ["base"],
    "mmu": ["base", "abi", "shares"],
    "dataplane/wire/crc": ["base"],
    "dataplane/wire": ["base"],
    "dataplane/qp/recovery": ["base", "dataplane/wire"],
    "dataplane/qp/congestion": ["base"],
    "dataplane/qp/memory": ["base", "dataplane/wire", "abi", "mmu"],
    "dataplane/qp": ["base", "dataplane/wire", "abi", "mmu"],
    "dataplane/port/ethdev": ["base", "dataplane/wire", "dataplane/port/port.h", "dataplane/port/make_port.h",
                              "dataplane/port/host_interface.h", "dataplane/port/steering_bpf.h",
                              "dataplane/port/queue_counters.h"],
    "dataplane/port/udp": ["base", "dataplane/wire", "dataplane/port/port.h", "dataplane/port/frame_pool.h",
                           "dataplane/port/host_interface.h", "dataplane/port/make_port.h",
                           "dataplane/port/steering_bpf.h", "dataplane/port/queue_counters.h",
                           "dataplane/port/socket_address.h"],
    "dataplane/port/shm": ["base", "dataplane/wire", "dataplane/port/port.h", "dataplane/port/make_port.h",
                           "dataplane/port/queue_counters.h"],
    "dataplane/port/faults": ["base", "dataplane/wire", "dataplane/port/port.h"],
    "dataplane/port": ["base", "dataplane/wire"],
    "dataplane/engine/turn": ["base", "dataplane/wire", "abi", "dataplane/qp", "dataplane/port", "mmu"],
    "dataplane/engine": ["base", "dataplane/wire", "abi", "dataplane/qp", "dataplane/port", "mmu"],
    "control/cm": ["base", "dataplane/wire"],
    "control/ip/addresses": ["base", "dataplane/wire", "control/ip/limits.h"],
    "control/ip/frames": ["base", "dataplane/wire", "control/ip/addresses"],
    "control/ip/neighbours": ["base", "dataplane/wire", "control/ip/addresses", "control/ip/frames"],
    "control/ip/groups": ["base", "dataplane/wire", "control/ip/addresses", "control/ip/frames"],
    "control/ip/kernel": ["base", "dataplane/wire", "dataplane/port", "control/ip/addresses", "control/ip/device.h",
                          "control/ip/limits.h"],
    "control/ip": ["base", "abi", "dataplane/wire", "dataplane/port"],
    "control/foreign": ["base", "abi", "shares", "mmu"],
    "control/paging": ["base", "abi", "shares", "mmu", "control/foreign"],
    "control/cm_user": ["base", "abi", "shares", "dataplane", "control/cm", "control/ip"],
    "control/sessions": ["base", "abi", "shares", "dataplane", "mmu", "control/ip"],
    "control/reports": ["base", "abi", "shares", "dataplane", "mmu", "control/sessions", "control/cm_user", "control/ip", "control/paging"],
    "control/metrics": ["base", "dataplane"],
    "control/commands": ["base", "abi", "shares", "dataplane", "mmu", "control/sessions", "control/cm_user", "control/ip",
                         "control/paging", "control/reports", "control/foreign"],
    "control/server": ["base", "abi", "shares", "dataplane", "control/commands", "control/sessions", "control/reports", "control/foreign"],
    "control/start": ["base", "abi", "shares", "dataplane", "mmu", "control/server", "control/commands", "control/sessions",
                      "control/cm_user", "control/ip", "control/paging", "control/reports", "control/metrics"],
    "verbs_shim/include": [],
    "verbs_shim/socket": ["base", "abi"],
    "verbs_shim/cm": ["base", "abi", "verbs_shim/socket"],
    "verbs_shim/memory/sharing": ["base", "abi"],
    "verbs_shim/memory/hooks": ["base", "abi", "verbs_shim/memory/sharing"],
    "verbs_shim/memory/pinned": ["base", "abi", "verbs_shim/memory/hooks", "verbs_shim/memory/sharing"],
    "verbs_shim/memory/paging": ["base", "abi", "verbs_shim/memory/hooks", "verbs_shim/memory/sharing"],
    "verbs_shim/objects": ["base", "abi", "verbs_shim/include", "verbs_shim/socket", "verbs_shim/memory/pinned",
                           "verbs_shim/memory/paging"],
    "verbs_shim/rings": ["base", "abi", "verbs_shim/objects", "verbs_shim/socket"],
    "verbs_shim/verbs": ["base", "abi", "verbs_shim/rings", "verbs_shim/objects", "verbs_shim/socket", "verbs_shim/memory"],
    "verbs_shim/symbols": ["verbs_shim/objects", "verbs_shim/socket"],
    "verbs_shim/interposer": ["base"],  # in programs that don't use verbs
    "verbs_shim/device": ["base", "abi", "verbs_shim/verbs", "verbs_shim/rings", "verbs_shim/objects", "verbs_shim/cm",
                          "verbs_shim/socket", "verbs_shim/memory"],
    "apps": ["base", "abi", "shares", "dataplane", "mmu", "control", "verbs_shim"],
    "apps/examples": [],  # they show what any program can do: verbs, and nothing of ours
    "apps/integrity": ["apps/progress"],
    "tests": ["base", "abi", "shares", "dataplane", "mmu", "control", "verbs_shim", "apps"],
}
_OURS = ("base/", "abi/", "shares/", "dataplane/", "mmu/", "control/", "verbs_shim/", "apps/", "tests/", "dts/")

# Sans-I/O: no clock, thread, lock or DPDK below the engine.
_PURE = ("abi", "dataplane/wire", "dataplane/wire/crc", "dataplane/qp", "dataplane/qp/memory", "dataplane/qp/recovery",
         "dataplane/qp/congestion", "control/cm")
_IMPURE_HEADER = re.compile(r"(rte_\w+\.h|thread|mutex|chrono|condition_variable|iostream|future|"
                            r"pthread\.h|sys/socket\.h|unistd\.h)$")
_INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def _folder(path):
    matches = [folder for folder in _MAY_INCLUDE if path.startswith(folder + "/")]
    return max(matches, key=len) if matches else None


def include_problems(path, text):
    folder = _folder(path)
    if folder is None:
        if path.startswith(_OURS):
            yield f"{path}: no row of _MAY_INCLUDE is about its folder"
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = _INCLUDE.match(line)
        if not match:
            continue
        quoted, target = match.group(1) == '"', match.group(2)
        where = f"{path}:{number}"
        if target.startswith(_OURS):
            allowed = [folder, *_MAY_INCLUDE[folder]]
            if not any(target == item or target.startswith(item + "/") for item in allowed):
                yield f"{where}: {folder} may not include {target}"
        elif quoted and not target.startswith("rte_"):
            yield f"{where}: write the include of {target} from the project's root, or with <> if it isn't ours"
        if folder in _PURE and _IMPURE_HEADER.match(target):
            yield f"{where}: {folder} is sans-I/O and may not include <{target}>"


def circles():
    """Finds cycles in the table: includes go down only."""
    below = {folder: [other for other in _MAY_INCLUDE if other != folder
                      and any(other == item or other.startswith(item + "/") for item in allowed)]
             for folder, allowed in _MAY_INCLUDE.items()}
    for folder in below:
        reached, todo = set(), [folder]
        while todo:
            todo += [other for other in below[todo.pop()] if other not in reached and not reached.add(other)]
        if folder in reached:
            yield f"tests/tidy/layering.py: {folder} may include itself by a cycle in the table"


def check(files):
    """`files`: {path: text} of C++ files."""
    return {"includes": [*circles(), *(problem for path, text in files.items()
                                       for problem in include_problems(os.path.normpath(path), text))]}
