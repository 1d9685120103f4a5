"""A machine for arm64, emulated by qemu (TCG), with Debian's kernel: its root is the one for arm64, the tree is at the path that it has here."""

import os
import subprocess
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(_HERE), "guests"))

from initramfs import write_archive  # noqa: E402  (the path above comes first)

_PROCESSORS = 2
_MEMORY_MIB = 2048
_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
_KERNEL_ARGUMENTS = "console=ttyAMA0 loglevel=5 panic=-1 nowatchdog rcupdate.rcu_cpu_stall_suppress=1 mitigations=off"


def run_in_machine(root, tree, folder, work, seconds_max, log):
    """Boots it, runs inside.sh there for the build in `folder`, and returns when the machine has ended. `work`: a folder for what
    inside.sh writes. What the console said is in `log`."""
    archive = os.path.join(work, "initramfs")
    files = {"bin/busybox": os.path.join(root.path, "bin", "busybox"), "init": os.path.join(_HERE, "init")}
    files |= {f"m/{number:02}-{os.path.basename(module)}": module for number, module in enumerate(root.modules_of(*_MODULES))}
    write_archive(archive, files)
    arguments = f"{_KERNEL_ARGUMENTS} UROCE_TREE={tree} UROCE_BUILD={folder} UROCE_WORK={work}"
    command = ["qemu-system-aarch64", "-machine", "virt", "-cpu", "max", "-accel", "tcg,thread=multi", "-smp", str(_PROCESSORS),
               "-m", str(_MEMORY_MIB), "-display", "none", "-nodefaults", "-no-reboot", "-kernel", root.kernel, "-initrd", archive,
               "-append", arguments, "-serial", f"file:{log}", *_share("root", root.path, "readonly=on"),
               *_share("tree", tree, "readonly=on"),
               # Owners and modes that the guest sets are kept beside the files: it can make no set-uid program here.
               *_share("work", work, "fmode=0644,dmode=0755", "mapped-file")]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=seconds_max)


def _share(name, path, options, security="none"):
    return ["-fsdev", f"local,id={name},path={path},security_model={security},multidevs=remap,{options}",
            "-device", f"virtio-9p-pci,fsdev={name},mount_tag={name}"]
