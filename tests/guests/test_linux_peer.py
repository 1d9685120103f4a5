"""Unmodified programs between uroce and Linux's Soft-RoCE, rdma_rxe of Debian 12's kernel: each with uroce as the server, and as
the client."""

import filecmp
import os

from linux_peer import INTEGRITY, PATIENT, LinuxPeerCase

_LONG = bool(os.environ.get("UROCE_E2E_LONG"))
_PINGPONG = ("-g", "GID", "-n", 200)
_PERFTEST = ("-F", "-x", "GID", "-u", 18)
_MEBIBYTE = 1 << 20
# perftest doesn't check data; integrity does.
_BANDWIDTH = {
    "ib_write_bw": (("-n", 10, "-s", _MEBIBYTE), ("-n", 50, "-s", 65536, "-m", 1024), ("-n", 100, "-q", 4),
                    ("-n", 100, "-b"), ("-n", 200, "-I", 64, "-s", 64)),
    "ib_read_bw": (("-n", 200, "-s", 8), ("-n", 10, "-s", _MEBIBYTE), ("-n", 50, "-s", 65536, "-m", 1024), ("-n", 100, "-q", 4),
                   ("-n", 100, "-b"), ("-n", 100, "-e")),
    "ib_send_bw": (("-n", 10, "-s", _MEBIBYTE), ("-n", 50, "-s", 65536, "-m", 1024), ("-n", 100, "-q", 4),
                   ("-n", 100, "-b"), ("-n", 100, "-e"), ("-n", 200, "-I", 64, "-s", 64), ("-n", 100, "-c", "UD", "-q", 2)),
    "ib_atomic_bw": (("-n", 100, "-q", 4), ("-n", 100, "-b"), ("-n", 100, "-A", "CMP_AND_SWAP")),
}
_LATENCY = ("ib_write_lat", "ib_send_lat", *(("ib_read_lat", "ib_atomic_lat") if _LONG else ()))


class Programs(LinuxPeerCase):
    """A guest for each kind of port. ibv_xsrq_pingpong isn't among them: rxe has no XRC."""

    def _pingpongs(self, family):
        self.run_pair("ibv_rc_pingpong", *_PINGPONG, "-c", family=family)
        self.run_pair("ibv_rc_pingpong", *_PINGPONG, "-c", "-e", "-m", 1024, "-s", 10001, family=family)
        for program in ("ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"):
            self.run_pair(program, *_PINGPONG, family=family)

    def _perftest(self, family):
        for tool, rows in _BANDWIDTH.items():
            for row in rows:
                self.run_pair(tool, *_PERFTEST, *row, family=family)
        for tool in _LATENCY:
            self.run_pair(tool, *_PERFTEST, "-n", 100, family=family)
        # Of UC only latency: a message that is lost, because the guest is slow, would stop ib_send_bw for ever.
        self.run_pair("ib_send_lat", *_PERFTEST, "-n", 100, "-c", "UC", family=family)

    def _connections(self):
        """Our connection manager and the kernel's."""
        for server in ("SERVER", "SERVER_V6"):
            common = ("-a", server, "-p", "PORT", "-C", 10, "-V")
            self.run_cm_pair(["rping", "-s", *common], ["rping", "-c", *common])
        self.run_cm_pair(["ucmatose", "-b", "SERVER", "-p", "PORT", "-c", 20],
                         ["ucmatose", "-s", "SERVER", "-b", "CLIENT", "-p", "PORT", "-c", 20])
        datagrams = ("-c", 5, "-C", 20)
        self.run_cm_pair(["udaddy", "-b", "SERVER", *datagrams], ["udaddy", "-s", "SERVER", "-b", "CLIENT", *datagrams], port=7174)

    def _more_connections(self):
        self.run_cm_pair(["rdma_server", "-p", "PORT"], ["rdma_client", "-s", "SERVER", "-p", "PORT"])
        self.run_cm_pair(["cmtime", "-b", "SERVER", "-p", "PORT", "-c", 50], ["cmtime", "-s", "SERVER", "-p", "PORT", "-c", 50],
                         endless=True)
        for options in ((), ("-T", "b"), ("-T", "n"), ("-T", "v")):
            common = ("-p", "PORT", "-S", 4096, "-I", 20, "-C", 5, *options)
            self.run_cm_pair(["rstream", "-b", "SERVER", *common], ["rstream", "-s", "SERVER", *common])
        for tool in (("ib_write_bw",), ("ib_read_lat",), ("ib_send_bw", "-c", "UD")):
            self.run_perftest_cm_pair(*tool, "-F", "-n", 50, "-s", 1024)

    def _rcopy(self):
        """Its client takes no port."""
        source, copy = (os.path.join(self.folder, name) for name in ("source", "copy"))
        with open(source, "wb") as file:
            file.write(os.urandom(_MEBIBYTE))
        command = (["rcopy"], ["rcopy", source, f"SERVER:{copy}"])
        self.run_cm_pair(*command, port=7427, endless=True, servers=("uroce",))
        self.assertTrue(filecmp.cmp(source, copy, shallow=False))
        os.remove(copy)
        self.run_cm_pair(*command, port=7427, endless=True, servers=("rxe",))
        self.rxe.guest.run(["cmp", source, copy])

    def test_udp(self):
        self.join("udp")
        self._pingpongs(4)
        self._perftest(4)
        self._connections()
        if _LONG:
            self._more_connections()
        self.expect_no_failures()

    def test_af_packet(self):
        self.join("af_packet")
        self._pingpongs(6)
        if _LONG:
            self._perftest(6)
        self._connections()
        self._more_connections()
        self._rcopy()
        self.run_mckey()
        self.expect_no_failures()


class Integrity(LinuxPeerCase):
    """apps/integrity compares every byte.

    Not in its default mode, which rxe (6.1) doesn't stand, also between two rxe devices: its requester waits for ever behind a
    fence (IB_SEND_FENCE) now and then, and when it goes back it may give a message another PSN than before (PATIENT), so that the
    peer takes it for the wrong one. The data of READs is compared by rping and by test_linux_iser.py.
    """

    _operations = 50_000 if _LONG else 4_000

    def _integrity(self, *arguments):
        self.run_pair(self.tree.integrity, "--gid-index", "GID", "--ops", self._operations, *arguments, shape=INTEGRITY)

    def test_udp(self):
        self.join("udp")
        self._integrity("--srq", *PATIENT)
        self._integrity("--srq", "--size-max", 131_072, *PATIENT)
        self._integrity("--transport", "uc")
        self._integrity("--transport", "ud")
        if _LONG:
            self._lossy()
        self.expect_no_failures()

    def _lossy(self):
        """Where packets are lost rxe goes back, and may number messages wrongly as said above: not in an ordinary run."""
        self.uroce_end.daemon.stop()
        self.start_daemon("udp", "--faults", "loss=0.01,dup=0.01,reorder=0.02,seed=7")
        self._integrity("--srq")
        self.run_pair("ibv_rc_pingpong", "-g", "GID", "-c", "-n", 300)
        self.assertGreater(self.status(self.uroce_end.daemon)["devices"][0]["hw_counters"]["requests_resent"], 0)
