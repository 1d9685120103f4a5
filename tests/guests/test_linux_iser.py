"""A disk over RDMA whose initiator is Linux's kernel (ib_iser over rdma_rxe), and whose target is tgtd, an unmodified program over uroce."""

import os

from harness.process import wait_until
from linux_peer import LinuxPeerCase

_PORT = 3260
_NAME, _INITIATOR = "iqn.2026-11.uroce:disk", "iqn.2026-11.uroce:guest"
_BYTES = 8 << 20
_WRITTEN_AT, _WRITTEN = 3 << 20, 1 << 20
_SECONDS_MAX = 60
# Logs in. The kernel makes /dev/sda.
_LOGIN = f"""
set -e
modprobe -a ib_iser sd_mod
echo InitiatorName={_INITIATOR} >/etc/iscsi/initiatorname.iscsi
iscsid
iscsiadm -m node -o new -T {_NAME} -p ADDRESS:{_PORT} -I iser
iscsiadm -m node -T {_NAME} -p ADDRESS:{_PORT} -I iser --login
iscsiadm -m session -P 1 | grep 'Iface Transport: iser'
until [ -b /dev/sda ]; do sleep 0.1; done
"""


class Iser(LinuxPeerCase):
    def _tgtadm(self, mode, operation, *arguments):
        self.uroce_end.start(["tgtadm", "--lld", "iser", "--mode", mode, "--op", operation, "--tid", "1", *map(str, arguments)],
                             f"{self.next_number()}-tgtadm", self.control).expect_success(_SECONDS_MAX)

    def _serve(self):
        self.path = os.path.join(self.folder, "disk")
        with open(self.path, "wb") as disk:
            disk.write(os.urandom(_BYTES))
        self.control = {"TGT_IPC_SOCKET": os.path.join(self.folder, "tgt")}
        target = self.uroce_end.start(["tgtd", "-f", "--iser", f"port={_PORT},pool_sz_mb=16"], "tgtd", self.control)
        wait_until(lambda: target.ended() or self.uroce_end.cm_listens(_PORT), 30, "tgtd listening")
        self._tgtadm("target", "new", "-T", _NAME)
        self._tgtadm("logicalunit", "new", "--lun", 1, "-b", self.path)
        self._tgtadm("target", "bind", "-I", "ALL")
        self._tgtadm("target", "bind", "-Q", _INITIATOR)  # by iSER tgt wants both the address and the name

    def _disk(self):
        with open(self.path, "rb") as disk:
            return disk.read()

    def test_disk(self):
        """Read whole, and written in part, past the guest's page cache; then the file that is the disk is compared."""
        self.need("tgtd", "tgtadm", "iscsid", "iscsiadm")
        self.join("af_packet")
        self._serve()
        guest = self.rxe.guest
        guest.run(_LOGIN.replace("ADDRESS", self.uroce_end.address), _SECONDS_MAX)
        copy, patch = (os.path.join(self.logs, name) for name in ("copy", "patch"))
        guest.run(f"dd if=/dev/sda of={copy} bs=256k iflag=direct")
        wanted = bytearray(self._disk())
        with open(copy, "rb") as read:
            self.assertTrue(read.read() == wanted, "what the initiator read isn't what is on the disk")
        os.remove(copy)
        wanted[_WRITTEN_AT:_WRITTEN_AT + _WRITTEN] = os.urandom(_WRITTEN)
        with open(patch, "wb") as file:
            file.write(wanted[_WRITTEN_AT:_WRITTEN_AT + _WRITTEN])
        guest.run(f"dd if={patch} of=/dev/sda bs=64k seek={_WRITTEN_AT} oflag=direct,seek_bytes conv=fsync")
        self.assertTrue(self._disk() == wanted, "what the initiator wrote isn't on the disk")
        guest.run(f"iscsiadm -m node -T {_NAME} --logout")
        self.assertGreater(self.bytes_sent(self.uroce_end.daemon), _BYTES)
        for end in (self.uroce_end, self.rxe):
            end.expect_running()
