"""Hardening of ELF files by compiler and linker, as readelf shows it."""

import os
import re
import subprocess

# What marks the functions to which an indirect jump may lead, and the flag that puts it there.
_MARK, _MARK_NAME = {"x86_64": (b"\xf3\x0f\x1e\xfa", "endbr64 (-fcf-protection)"),
                     "aarch64": (b"\x5f\x24\x03\xd5", "bti c (-mbranch-protection)")}[os.uname().machine]


def installed_elf_files(folder):
    found = []
    for parent, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                if not os.path.islink(path) and file.read(4) == b"\x7fELF":
                    found.append(path)
    return found


def _readelf(*arguments):
    return subprocess.run(["readelf", *arguments], capture_output=True, text=True, check=True).stdout


def glibc_wanted(path):
    """The newest version of glibc whose symbols it refers to, as (2, 35)."""
    versions = re.findall(r"@GLIBC_(\d+)\.(\d+)", _readelf("--dyn-syms", "-W", path))
    return max((int(major), int(minor)) for major, minor in versions)


def missing_hardening(path):
    """The names of the missing hardening features."""
    header, segments, dynamic, symbols = (_readelf(flags, path) for flags in ("-hW", "-lW", "-dW", "-sW"))
    with open(path, "rb") as file:
        code = file.read()
    has = {
        "position-independent": bool(re.search(r"Type:\s+DYN", header)),
        "GNU_RELRO": "GNU_RELRO" in segments,
        "BIND_NOW": bool(re.search(r"BIND_NOW|FLAGS_1\).*\bNOW\b", dynamic)),
        "stack that isn't executable": bool(re.search(r"GNU_STACK.* RW ", segments)),
        "stack protector": "__stack_chk_fail" in symbols,
        "fortified calls": bool(re.search(r"__(mem|str|s?n?printf|vs?n?printf|fprintf|read|recv|fdelt|explicit)\w*_chk", symbols)),
        _MARK_NAME: code.count(_MARK) > 16,
    }
    return [name for name, there in has.items() if not there]
