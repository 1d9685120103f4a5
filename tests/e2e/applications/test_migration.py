"""QEMU's live migration by RDMA: a guest that writes memory all the time is moved to another namespace, and runs on there."""

import json
import os
import socket
import struct
import subprocess

from harness.application import LOCKING_NOBODY, ApplicationCase
from harness.places import SOURCES
from harness.process import wait_until
from harness.rdmacm import listens

_PORT = 4444  # the port space is the card's own
_SECONDS_MAX = 60
_MIB = 1 << 20
_COUNTED = (2 * _MIB, 4 * _MIB)  # the memory that the guest keeps writing: start, length
_FILLED = 8 * _MIB  # above this a large guest has written once
_SOURCE = os.path.join(SOURCES, "counting_guest.S")


class Guest:
    """A QEMU and its monitor."""

    def __init__(self, case, end, name, boot, *arguments):
        self._case, self._name = case, name
        path = os.path.join(case.folder, f"{name}.qmp")
        self.process = case.start(end, name, "qemu-system-x86_64", "-accel", "tcg", "-m", case.memory // _MIB, "-nographic",
                                  "-nodefaults", "-drive", f"file={boot},format=raw,if=ide,snapshot=on",
                                  "-qmp", f"unix:{path},server=on,wait=off", *arguments)
        self._socket = socket.socket(socket.AF_UNIX)
        case.addCleanup(self._socket.close)
        self._socket.settimeout(_SECONDS_MAX)
        # Its file is there before it listens.
        wait_until(lambda: self.process.ended() or self._socket.connect_ex(path) == 0, 60, f"{name}'s monitor")
        self._lines = self._socket.makefile("r", encoding="utf-8")
        case.addCleanup(self._lines.close)
        self._lines.readline()
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self._socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        for line in self._lines:
            answer = json.loads(line)
            if "event" not in answer:
                self._case.assertIn("return", answer, command)
                return answer["return"]
        raise AssertionError(f"{self._name} hung up: {self.process.last_words()}")

    def memory(self, start, size):
        path = os.path.join(self._case.folder, f"{self._name}.memory")
        self.ask("pmemsave", val=start, size=size, filename=path)
        with open(path, "rb") as file:
            return file.read()

    def passes(self):
        """How many times the guest has started filling its memory."""
        return struct.unpack("<I", self.memory(_COUNTED[0], 4))[0]


class Migration(ApplicationCase):
    user = LOCKING_NOBODY
    memory, filled_end, migration_seconds_max = 64 * _MIB, 0, _SECONDS_MAX

    def _boot(self):
        thing, boot = os.path.join(self.folder, "guest.o"), os.path.join(self.folder, "guest.boot")
        for command in (["as", "--32", f"--defsym=FILLED_END={self.filled_end}", "-o", thing, _SOURCE],
                        ["ld", "-m", "elf_i386", "-Ttext=0x7c00", "--oformat=binary", "-o", boot, thing]):
            answer = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(answer.returncode, 0, answer.stderr)
        os.chmod(boot, 0o644)
        return boot

    def _check(self, pinned):
        self.need("qemu-system-x86_64", "as", "ld")
        server, client = self.ordinary(self.wire("veth"))
        boot, target = self._boot(), f"rdma:{server.address}:{_PORT}"
        capability = [{"capability": "rdma-pin-all", "state": pinned}]
        there = Guest(self, server, "there", boot, "-S", "-incoming", "defer")
        there.ask("migrate-set-capabilities", capabilities=capability)
        there.ask("migrate-incoming", uri=target)
        wait_until(lambda: there.process.ended() or listens(self, server, _PORT), 30, "the destination listening")
        here = Guest(self, client, "here", boot)
        wait_until(lambda: 1 < here.passes() < 1 << 20, _SECONDS_MAX, "the guest's second pass")
        here.ask("migrate-set-capabilities", capabilities=capability)
        here.ask("migrate-set-parameters", **{"downtime-limit": 2000})  # it writes faster than a busy machine copies
        here.ask("migrate", uri=target)
        state = wait_until(lambda: self._ended(here), self.migration_seconds_max, "the migration")
        self.assertEqual(state["status"], "completed", state)
        print(f"{state['total-time']} ms in all, {state['downtime']} ms stopped, {state['ram']['mbps']:.0f} Mb/s", flush=True)
        wait_until(lambda: there.ask("query-status")["status"] != "inmigrate", _SECONDS_MAX, "the guest's arrival")
        self._expect_same(here, there)
        self.expect_sent(max(_COUNTED[1], self.filled_end - _FILLED), client.daemon)
        arrived = there.passes()
        there.ask("cont")
        wait_until(lambda: there.passes() > arrived, _SECONDS_MAX, "the guest to go on")

    def _ended(self, guest):
        state = guest.ask("query-migrate")
        return state if state.get("status") in ("completed", "failed", "cancelled") else None

    def _expect_same(self, here, there):
        """With both stopped, compares all memory above the first MiB, and checks it against the guest's own pattern."""
        left, arrived = (guest.memory(_MIB, self.memory - _MIB) for guest in (here, there))
        self.assertTrue(left == arrived, "the memory that arrived isn't what was there")
        for page in range(_FILLED, self.filled_end, 4096):
            self.assertEqual(struct.unpack_from("<I", arrived, page - _MIB)[0], page)
        start = _COUNTED[0] - _MIB
        words = struct.unpack(f"<{_COUNTED[1] // 4}I", arrived[start:start + _COUNTED[1]])
        changes = [i for i in range(1, len(words)) if words[i] != words[i - 1]]
        self.assertLessEqual(len(changes), 1)
        self.assertTrue(all(words[i] == words[i - 1] - 1 for i in changes))

    def test_pinned(self):
        """All of the guest's memory is registered in advance."""
        self._check(True)

    def test_dynamic(self):
        """Each MiB is registered when part of it is to be sent."""
        self._check(False)


class MigrationOfALargeGuest(Migration):
    """1 GiB, of which all but the first 8 MiB isn't zero."""

    seconds_max = 600
    memory = filled_end = 1024 * _MIB
    migration_seconds_max = 300

    def setUp(self):
        if not os.environ.get("UROCE_E2E_LONG"):
            self.skipTest("only with --long: a guest of 1 GiB")
        super().setUp()
