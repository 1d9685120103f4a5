"""A disk over RDMA: tgt serves a file by iSER, libiscsi's tools and QEMU's are its initiators. All in user space, all Debian's."""

import os

from harness.application import ADDRESS, LOCKING_NOBODY, ApplicationCase
from harness.process import wait_until
from harness.rdmacm import listens

_PORT = 3260  # the port space is the card's own
_NAME = "iqn.2026-11.uroce:disk"
_DISK = f"iser://{ADDRESS}:{_PORT}/{_NAME}/1"
_INQUIRER, _QEMU = "iqn.2026-11.uroce:inquirer", "iqn.2008-11.org.linux-kvm"  # QEMU's own name
_BYTES = 8 << 20
_SECONDS_MAX = 60


class Iser(ApplicationCase):
    user = LOCKING_NOBODY  # tgt registers its pool of buffers at once

    def setUp(self):
        super().setUp()
        self.need("tgtd", "tgtadm", "iscsi-inq", "qemu-img", "qemu-io")
        self.end = self.card()
        self.path = os.path.join(self.folder, "disk")
        with open(self.path, "wb") as disk:
            disk.write(os.urandom(_BYTES))
        os.chmod(self.path, 0o666)
        self.control = {"TGT_IPC_SOCKET": os.path.join(self.folder, "tgt")}
        self.target = self.start(self.end, "tgtd", "tgtd", "-f", "--iser", f"port={_PORT},pool_sz_mb=16",
                                 environment=self.control)
        wait_until(lambda: self.target.ended() or listens(self, self.end, _PORT), 30, "tgtd listening")
        self._administer("target", "new", "-T", _NAME)
        self._administer("logicalunit", "new", "--lun", 1, "-b", self.path)
        self._administer("target", "bind", "-I", "ALL")
        for initiator in (_INQUIRER, _QEMU):  # by iSER tgt wants both the address and the name
            self._administer("target", "bind", "-Q", initiator)

    def _administer(self, mode, operation, *arguments):
        process = self.start(self.end, "tgtadm", "tgtadm", "--lld", "iser", "--mode", mode, "--op", operation, "--tid", 1,
                             *arguments, environment=self.control)
        process.expect_success(_SECONDS_MAX)

    def _run(self, *command):
        return self.start(self.end, command[0], *command).expect_success(_SECONDS_MAX)

    def _disk(self):
        with open(self.path, "rb") as disk:
            return disk.read()

    def test_disk(self):
        out = self._run("iscsi-inq", "-i", _INQUIRER, _DISK)
        self.assertIn("VIRTUAL-DISK", out)
        self._run("qemu-img", "dd", "-f", "raw", "-O", "raw", "bs=64k", f"if={_DISK}", "of=copy")
        with open(os.path.join(self.folder, "copy"), "rb") as copy:
            self.assertEqual(copy.read(), self._disk())
        before = self._disk()
        self._run("qemu-io", "-f", "raw", "-c", "write -P 0x5a 64k 256k", "-c", "write -P 0x77 1M 4k", "-c", "flush",
                  "-c", "read -P 0x5a 64k 256k", "-c", "read -P 0x77 1M 4k", _DISK)
        wanted = bytearray(before)
        wanted[64 << 10:320 << 10] = b"\x5a" * (256 << 10)
        wanted[1 << 20:(1 << 20) + 4096] = b"\x77" * 4096
        self.assertEqual(self._disk(), bytes(wanted))
        self.expect_sent(_BYTES, self.end.daemon)
