"""ibv_rc_pingpong: SENDs both ways, the received buffer checked (-c)."""

from harness.case import E2eCase, on_each_wire
from harness.programs import run_pair

_FEW = ("-n", 200)


@on_each_wire
class Pingpong(E2eCase):
    def check_poll(self, wire):
        run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", *_FEW)

    def check_events(self, wire):
        run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", "-e", *_FEW)

    def check_sizes(self, wire):
        for size in (1, 3, 1023, 4096, 65536, 1048576):
            with self.subTest(size=size):
                run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", "-s", size, "-n", 30, "-r", 50)

    def check_mtus(self, wire):
        for mtu in (256, 512, 1024, 2048, 4096):
            with self.subTest(mtu=mtu):
                run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", "-m", mtu, "-s", 10001, "-n", 50)

    def check_unreliable(self, wire):
        run_pair(self, wire, "ibv_uc_pingpong", "-g", 1, *_FEW)
        run_pair(self, wire, "ibv_uc_pingpong", "-g", 1, "-e", "-s", 10001, *_FEW)
        run_pair(self, wire, "ibv_ud_pingpong", "-g", 1, *_FEW)
        run_pair(self, wire, "ibv_ud_pingpong", "-g", 1, "-e", "-s", 1, *_FEW)


class PingpongByCopy(E2eCase):
    def test_copied_memory(self):
        """The daemon accesses the programs' memory through /proc/PID/mem."""
        run_pair(self, self.wire("loopback"), "ibv_rc_pingpong", "-g", 1, "-c", "-s", 65537, "-n", 50,
                 environment={"UROCE_MEMORY": "copy"})


class Preloaded(E2eCase):
    def test_preload(self):
        """The shim by LD_PRELOAD instead of LD_LIBRARY_PATH."""
        run_pair(self, self.wire("loopback"), "ibv_rc_pingpong", "-g", 1, "-c", *_FEW,
                 environment={"LD_LIBRARY_PATH": "", "LD_PRELOAD": f"{self.tree.shim}/libibverbs.so.1"})
