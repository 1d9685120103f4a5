"""The file system from which a guest's kernel starts: busybox, the modules that the root needs, and the script `init`.

It is a cpio archive in the format "newc" (Documentation/driver-api/early-userspace/buffer-format.rst of Linux), not compressed.
"""

import os

_BUSYBOX = "/bin/busybox"  # of busybox-static: there are no libraries
_FOLDERS = ("bin", "dev", "m", "new", "proc", "sys")
_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "init")
# The root is a 9p share under an overlay; the last one is the way to the agent.
_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console")
_FOLDER_MODE, _PROGRAM_MODE = 0o040755, 0o100755


def write_initramfs(path, kernel):
    """Modules are numbered in the order in which they have to be loaded."""
    files = {"bin/busybox": _BUSYBOX, "init": _SCRIPT}
    for number, module in enumerate(kernel.files_of(*_MODULES)):
        files[f"m/{number:02}-{os.path.basename(module)}"] = module
    write_archive(path, files)


def write_archive(path, files):
    """`files`: what they are called there, and where they are here. All may be executed."""
    with open(path, "wb") as archive:
        for inode, folder in enumerate(_FOLDERS, 1):
            _entry(archive, inode, folder, _FOLDER_MODE, b"")
        for inode, (name, source) in enumerate(files.items(), len(_FOLDERS) + 1):
            with open(source, "rb") as content:
                _entry(archive, inode, name, _PROGRAM_MODE, content.read())
        _entry(archive, 0, "TRAILER!!!", 0, b"")


def _entry(archive, inode, name, mode, content):
    """A header of 13 numbers in hexadecimal, the name with a zero, the content; the last two are filled up to 4 bytes."""
    numbers = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    header = b"070701" + b"".join(f"{number:08x}".encode() for number in numbers) + name.encode() + b"\0"
    for part in (header, content):
        archive.write(part + bytes(-len(part) % 4))
