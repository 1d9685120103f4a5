"""uroce on cards that DPDK drives, those which qemu emulates, with Linux's Soft-RoCE at the other end: on a second card of the same
guest, joined to the first by a hub."""

import os
import signal

from card_end import CardEnd
from ends import RxeEnd
from guest import Guest
from harness.process import wait_until
from harness.wires import MTU
from linux_peer import INTEGRITY, PATIENT, LinuxPeerCase
from monitor import Monitor

_CARD, _RXE_CARD = "0000:00:03.0", "0000:00:02.0"
_LINK_SECONDS_MAX = 30
_START_SECONDS_MAX = 60
_USER = "daemon"  # of Debian's base system
_AS_USER = ("setpriv", "--reuid", _USER, "--regid", _USER, "--clear-groups", "--inh-caps=-all")
_OPERATIONS = 20_000 if os.environ.get("UROCE_E2E_LONG") else 1_000


class CardCase(LinuxPeerCase):
    def insert(self, device, driver):
        """`device`: qemu's; `driver`: the kernel's, which has it first."""
        self.need("ip", "rdma", "ibv_rc_pingpong", "dpdk-devbind.py", "lspci")
        self.start_attempts()
        self.monitor = Monitor(self.folder)
        self.addCleanup(self.monitor.end)
        guest = Guest(self, networks=[f"hubport,id=end{number},hubid=0" for number in (0, 1)],
                      devices=[f"{device},id=card,netdev=end0,addr={_CARD[-4:]},romfile=",
                               f"virtio-net-pci,netdev=end1,addr={_RXE_CARD[-4:]},host_mtu={MTU},romfile="],
                      arguments=self.monitor.arguments, iommu=True, huge_pages=200, memory_mib=2048)
        self.monitor.connect()
        self.uroce_end = CardEnd(self, guest, _CARD, driver)
        self.rxe = RxeEnd(guest, host=CardEnd.host)
        self.uroce_end.start_daemon()

    def run_programs(self):
        self.run_pair("ibv_rc_pingpong", "-g", "GID", "-c", "-n", 200)
        self.run_pair("ibv_ud_pingpong", "-g", "GID", "-n", 200)
        self.run_pair("ib_write_bw", "-F", "-x", "GID", "-n", 50, "-s", 65536)
        common = ("-a", "SERVER", "-p", "PORT", "-C", 10, "-V")
        self.run_cm_pair(["rping", "-s", *common], ["rping", "-c", *common])
        self.run_pair(self.tree.integrity, "--gid-index", "GID", "--ops", _OPERATIONS, "--srq", *PATIENT, shape=INTEGRITY)

    def ping(self):
        self.run_pair("ibv_rc_pingpong", "-g", "GID", "-c", "-n", 50, servers=("uroce",))

    def run_beyond_a_timers_pace(self):
        """Where each message waits for rxe's timer (67 ms), these take longer than a pair of programs may (60 s)."""
        self.run_pair("ibv_rc_pingpong", "-g", "GID", "-n", 1000, servers=("uroce",))

    def pull_and_plug_the_cable(self):
        for up in (False, True):
            self.monitor.set_link("card", up)
            wait_until(lambda up=up: self.uroce_end.link_is(up), _LINK_SECONDS_MAX, f"the link {'up' if up else 'down'}")

    def restart_after_a_kill(self):
        self.uroce_end.daemon.kill()
        self.uroce_end.start_daemon()


class Cards(CardCase):
    def test_82574l(self):
        """Its interrupts for received frames never come: a sleeping worker has to poll."""
        self.insert("e1000e", "e1000e")
        self.run_beyond_a_timers_pace()
        self.run_programs()
        self.attempt("the cable is pulled out and plugged in", self.pull_and_plug_the_cable)
        self.ping()
        self.expect_no_failures()
        self.uroce_end.stop_daemon()

    def test_82540em(self):
        """Neither do its."""
        self.insert("e1000", "e1000")
        self.run_beyond_a_timers_pace()
        self.expect_no_failures()

    def test_virtio(self):
        """Puts a header of its own in front of each frame, in the same buffer."""
        self.insert(f"virtio-net-pci,iommu_platform=on,disable-legacy=on,host_mtu={MTU}", "virtio_net")
        self.run_programs()
        self.attempt("uroced is killed with SIGKILL and started again", self.restart_after_a_kill)
        self.ping()
        self.run_mckey()
        self.expect_no_failures()
        self.uroce_end.stop_daemon()

    def test_vmxnet3(self):
        self.insert("vmxnet3", "vmxnet3")
        self.ping()
        self.attempt("the cable is pulled out and plugged in", self.pull_and_plug_the_cable)
        self.ping()
        self.expect_no_failures()


class Rights(CardCase):
    """What a card takes, and what uroced says where it is missing."""

    def test_messages(self):
        self.need("dpdk-devbind.py", "lspci", "setpriv")
        self.guest = Guest(self, networks=["hubport,id=end0,hubid=0"], devices=[f"e1000e,netdev=end0,addr={_CARD[-4:]},romfile="],
                           iommu=True, memory_mib=1024)
        self.guest.run("modprobe -a e1000e vfio-pci")
        self._expect_refusal(_CARD, f"the kernel's driver e1000e has this device; take it from the kernel: dpdk-devbind.py --bind=vfio-pci {_CARD}")
        self._expect_refusal("0000:00:09.0", "this machine has no PCI device with this address")
        self.guest.run(f"dpdk-devbind.py --unbind {_CARD}")
        self._expect_refusal(_CARD, "no driver has this device; bind it")
        self.guest.run(f"dpdk-devbind.py --bind=vfio-pci {_CARD}")
        group = os.path.basename(self.guest.run(["readlink", f"/sys/bus/pci/devices/{_CARD}/iommu_group"]).strip())
        self._expect_refusal(_CARD, f"this user may not open /dev/vfio/{group}", *_AS_USER)
        self.guest.run(f"chown {_USER} /dev/vfio/{group}")
        self._expect_refusal(_CARD, "raise `ulimit -l`", "prlimit", f"--memlock={64 << 20}", *_AS_USER)
        self._expect_start(_CARD, *_AS_USER)

    def _started(self, card, *prefix):
        return self.guest.start(["prlimit", "--memlock=unlimited", *prefix, *self.tree.uroced, "--port", card, "--ip", "10.79.0.1/24",
                                 "--socket", "/tmp/uroce-cards.sock"], f"{self.next_number()}-uroced")

    def _expect_refusal(self, card, says, *prefix):
        daemon = self._started(card, *prefix)
        daemon.expect_failure(_START_SECONDS_MAX)
        self.assertIn(says, daemon.err())

    def _expect_start(self, card, *prefix):
        """Without huge pages, which this guest hasn't got."""
        daemon = self._started(card, *prefix)
        wait_until(lambda: "listening" in daemon.err() or daemon.ended(), _START_SECONDS_MAX, "uroced on its card")
        self.assertFalse(daemon.ended(), daemon.last_words())
        self.assertIn("CapPrm:\t0000000000000000", self.guest.read(f"/proc/{daemon.pid}/status"))
        daemon.signal(signal.SIGTERM)
        daemon.expect_success(_START_SECONDS_MAX)
