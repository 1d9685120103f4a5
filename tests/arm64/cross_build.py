"""The build folder build-arm64: compiled by Debian's cross compiler against the root for arm64."""

import os
import subprocess

_CROSS_FILE = """[binaries]
cpp = 'aarch64-linux-gnu-g++'
ar = 'aarch64-linux-gnu-gcc-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-aarch64-static', '-L', '{root}']

[properties]
sys_root = '{root}'
pkg_config_libdir = ['{root}/usr/lib/aarch64-linux-gnu/pkgconfig', '{root}/usr/share/pkgconfig']

[built-in options]
cpp_args = ['--sysroot={root}']
cpp_link_args = ['--sysroot={root}']

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'armv8-a'
endian = 'little'
"""
_SECONDS_MAX = 7200


def build(tree, folder, root, targets, jobs, log):
    """Brings these targets up to date, or all."""
    cross_file = f"{folder}.ini"
    with open(cross_file, "w", encoding="utf-8") as text:
        text.write(_CROSS_FILE.format(root=root.path))
    with open(log, "wb") as out:
        if not os.path.exists(os.path.join(folder, "build.ninja")):
            _run(out, "meson", "setup", folder, tree, "--cross-file", cross_file)
        _run(out, "ninja", "-C", folder, "-j", str(jobs), *targets)


def _run(out, *command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=_SECONDS_MAX)
