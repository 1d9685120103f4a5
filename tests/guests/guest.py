"""A guest: a machine emulated by qemu, with Debian's kernel and this machine's root, which it can read but not write.

It is emulated without KVM (README.md says why), so it is some ten times slower than this machine.
"""

import contextlib
import json
import os
import re
import socket

from guest_process import GuestProcess
from harness.process import Process, ProcessFailed, wait_until
from initramfs import write_initramfs
from kernel import Kernel

_HERE = os.path.dirname(os.path.abspath(__file__))
_BOOT_SECONDS_MAX = 120  # 8 s where nothing else runs
_ANSWER_SECONDS_MAX = 60
_RUN_SECONDS_MAX = 60
_READ_BYTES_MAX = 1 << 16
_PROCESSORS = 2
# What a kernel says when something is wrong with it.
_TROUBLE = re.compile(r"Kernel panic|BUG:|Oops:|WARNING: CPU|general protection fault|unable to handle|Unable to mount|refcount_t:")
# Time in a guest passes while its processors wait for ours, so what complains of lost time says nothing.
_KERNEL_ARGUMENTS = "console=ttyS0 loglevel=5 panic=-1 nowatchdog rcupdate.rcu_cpu_stall_suppress=1 mitigations=off"


class Guest:
    """`networks` are qemu's -netdev, `devices` its -device: a card takes both. `devices` may have addresses from 02.0 to 0f.0, which
    are then those of /sys/bus/pci. `namespace` is where qemu runs, so where its taps are."""

    def __init__(self, setting, networks=(), devices=(), arguments=(), namespace=None, iommu=False, huge_pages=0,
                 memory_mib=1024):
        setting.need("qemu-system-x86_64", "busybox")
        setting.need_root("a guest's root is this machine's, with its file owners")
        self._setting, self._number, self._pending = setting, 0, b""
        self._answers = {}  # by request: what came, not yet taken
        self.kernel = Kernel(setting)
        self.console_path = os.path.join(setting.logs, "console")
        initramfs = os.path.join(setting.folder, "initramfs")
        write_initramfs(initramfs, self.kernel)
        kernel_arguments = " ".join([_KERNEL_ARGUMENTS, f"hugepages={huge_pages}", *(["intel_iommu=on iommu=pt"] if iommu else []),
                                     f"UROCE_AGENT={_HERE}/agent.py", f"UROCE_MODULES={self.kernel.modules}",
                                     f"UROCE_LOGS={setting.logs}"])
        with socket.socket(socket.AF_UNIX) as listener:
            path = os.path.join(setting.folder, "agent.sock")
            listener.bind(path)
            listener.listen()
            self.process = Process([*(namespace.prefix() if namespace else []), *_machine(iommu, memory_mib), *_shares(setting.logs),
                                    *_agent(path), "-kernel", self.kernel.image, "-initrd", initramfs, "-append", kernel_arguments,
                                    "-serial", f"file:{self.console_path}",
                                    *(word for network in networks for word in ("-netdev", network)),
                                    *(word for device in devices for word in ("-device", device)), *arguments],
                                   "qemu", setting.logs)
            setting.addCleanup(self._end_and_check)
            listener.setblocking(False)
            self._socket = wait_until(lambda: self._accepted(listener), _BOOT_SECONDS_MAX, "qemu's connection")
        self._answer_to("ready", _BOOT_SECONDS_MAX, "the guest's agent")

    def start(self, command, name, environment=None):
        """A program that runs in the guest, beside others."""
        return GuestProcess(self, command, name, self._setting.logs, environment)

    def run(self, command, seconds_max=_RUN_SECONDS_MAX, environment=None):
        """Its output. `command` is a list of words, or a line for the shell. It must succeed."""
        words = ["sh", "-c", command] if isinstance(command, str) else [str(word) for word in command]
        name = command.split()[0] if isinstance(command, str) else os.path.basename(words[0])
        process = self.start(words, f"{self._setting.next_number()}-guest-{name}", environment)
        return process.expect_success(seconds_max)

    def read(self, path):
        """The content of a file there, such as one in /proc."""
        number = self.ask(read=path)
        answer = self._answer_to(number, _ANSWER_SECONDS_MAX, path)
        if "error" in answer:
            raise ProcessFailed(f"the guest: {answer['error']}")
        return answer["text"]

    def expect_running(self):
        """Neither has the guest ended nor has its kernel reported trouble."""
        trouble = self.trouble()
        if trouble:
            raise ProcessFailed(f"the guest's kernel: {trouble}; see {self.console_path}")
        if self.process.ended():
            raise ProcessFailed(f"the guest ended: {self.process.last_words()}; {self.console()[-300:]}")

    def trouble(self):
        return next((line.strip() for line in self.console().splitlines() if _TROUBLE.search(line)), None)

    def console(self):
        with contextlib.suppress(FileNotFoundError), open(self.console_path, encoding="utf-8", errors="replace") as text:
            return text.read()
        return ""

    def end(self):
        """Nothing is lost: what the guest has written to the log folder is there."""
        self.process.end()

    def _end_and_check(self):
        self.end()
        if hasattr(self, "_socket"):
            self._socket.close()
        trouble = self.trouble()
        if trouble:
            raise ProcessFailed(f"the guest's kernel: {trouble}; see {self.console_path}")

    # How the agent is spoken to: see agent.py.

    def ask(self, **request):
        """Returns the request's number."""
        self._number += 1
        self._socket.settimeout(_ANSWER_SECONDS_MAX)
        try:
            self._socket.sendall(json.dumps({"id": self._number, **request}).encode() + b"\n")
        except OSError as refusal:  # a timeout, too
            self.expect_running()
            raise ProcessFailed(f"the guest's agent: {refusal}") from None
        return self._number

    def answer(self, number, key):
        """The answer that has this key, if it has come."""
        self._receive()
        answers = self._answers.setdefault(number, [])
        return next((answer for answer in answers if key in answer or "error" in answer), None)

    def _answer_to(self, number, seconds_max, what):
        def come():
            self._receive()
            if number not in self._answers:
                self.expect_running()
            return self._answers.pop(number, None)
        return wait_until(come, seconds_max, what)[0]

    def _receive(self):
        self._socket.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            while received := self._socket.recv(_READ_BYTES_MAX):
                *lines, self._pending = (self._pending + received).split(b"\n")
                for line in lines:
                    answer = json.loads(line)
                    self._answers.setdefault("ready" if "ready" in answer else answer["id"], []).append(answer)

    def _accepted(self, listener):
        if self.process.ended():
            raise ProcessFailed(f"qemu: {self.process.last_words()}")
        try:
            return listener.accept()[0]
        except BlockingIOError:
            return None


def _machine(iommu, memory_mib):
    """Devices of ours are behind those of the caller, whose addresses it may want to know."""
    words = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", _PROCESSORS, "-m", memory_mib,
             "-machine", "q35,kernel-irqchip=split" if iommu else "q35", "-display", "none", "-nodefaults", "-no-reboot"]
    return words + (["-device", "intel-iommu,intremap=on,caching-mode=on,device-iotlb=on"] if iommu else [])


def _shares(logs):
    """The root can't be written, whatever the guest does; the case's log folder can."""
    return ["-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=root,mount_tag=root,addr=1c.0",
            # Owners and modes that the guest sets are kept beside the files: it can make no device file or set-uid program here.
            "-fsdev", f"local,id=logs,path={logs},security_model=mapped-file,fmode=0644,dmode=0755",
            "-device", "virtio-9p-pci,fsdev=logs,mount_tag=logs,addr=1d.0"]


def _agent(path):
    return ["-chardev", f"socket,id=agent,path={path}", "-device", "virtio-serial-pci,addr=1e.0",
            "-device", "virtserialport,chardev=agent,name=agent"]
