"""Tools that measure networks: qperf, uDAPL's test program, and every test of ucx_perftest."""

import os

from harness.application import ADDRESS, CARD_NAME, INTERFACE, LOCKING_NOBODY, ApplicationCase
from harness.process import wait_until
from harness.programs import listens, qperf_output
from harness.wires import free_tcp_port

_SECONDS_MAX = 60
# qperf's other tests (UC and UD) name their peer by LID, which RoCE doesn't have, and can't be given a GID.
_QPERF_TESTS = ("rc_lat", "rc_bw", "rc_rdma_read_bw", "rc_rdma_write_lat", "rc_fetch_add_mr", "ver_rc_compare_swap")


class Qperf(ApplicationCase):
    def test_qperf(self):
        """qperf measures for a second and ends with an alarm, which must interrupt a wait for a completion. The last
        test compares the result of each atomic operation."""
        self.need("qperf")
        end, port = self.card(), free_tcp_port()
        server = self.start(end, "qperf-server", "qperf", "-lp", port)
        wait_until(lambda: server.ended() or listens(end.pid, port), 30, "qperf listening")
        out = qperf_output(lambda: self.start(end, "qperf", "qperf", ADDRESS, "-lp", port, "-cm", 1, "-t", 1, *_QPERF_TESTS),
                           _SECONDS_MAX)
        for test in _QPERF_TESTS:
            self.assertIn(f"{test}:", out)
        self.expect_sent(0, end.daemon)


class Dapl(ApplicationCase):
    """uDAPL's provider that connects by the connection manager: messages, WRITE, READ and atomics by dtest."""

    user = LOCKING_NOBODY

    def test_dtest(self):
        self.need("dtest")
        end, settings = self.card(), os.path.join(self.folder, "dat.conf")
        with open(settings, "w", encoding="ascii") as text:
            text.write(f'uroce u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "{INTERFACE} 0" ""\n')
        environment = {"DAT_OVERRIDE": settings}
        server = self.start(end, "dtest-server", "dtest", "-P", "uroce", environment=environment)
        wait_until(lambda: server.ended() or "waiting for client" in server.out(), 30, "dtest listening")
        client = self.start(end, "dtest", "dtest", "-P", "uroce", "-h", ADDRESS, environment=environment)
        for process in (client, server):
            self.assertIn("DAPL Test Complete. PASSED", process.expect_success(_SECONDS_MAX))
        self.expect_sent(1_000_000, end.daemon)


class Ucx(ApplicationCase):
    """Each test of ucx_perftest that carries messages or memory, small and large, by one transport."""

    user = LOCKING_NOBODY
    tests = ("tag_lat", "tag_bw", "tag_sync_lat", "ucp_put_lat", "ucp_put_bw", "ucp_get", "ucp_add", "ucp_fadd", "ucp_swap",
             "ucp_cswap", "stream_bw", "stream_lat", "ucp_am_lat", "ucp_am_bw")

    def _check(self, transport):
        self.need("ucx_perftest")
        self.need_character_device()
        end = self.card()
        environment = {"UCX_TLS": f"{transport},self", "UCX_NET_DEVICES": f"{CARD_NAME}:1"}
        for test in self.tests:
            # Atomic operations have 8 bytes.
            for size in (8,) if test.startswith(("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")) else (8, 200_000):
                self._run(end, environment, test, size)
        self.expect_sent(1_000_000, end.daemon)

    def _run(self, end, environment, test, size):
        port = free_tcp_port()
        common = ["ucx_perftest", "-t", test, "-n", 20, "-w", 2, "-s", size, "-p", port]
        server = self.start(end, f"{test}-{size}-server", *common, environment=environment)
        wait_until(lambda: server.ended() or listens(end.pid, port), 30, "ucx_perftest listening")
        client = self.start(end, f"{test}-{size}", *common, "127.0.0.1", environment=environment)
        client.expect_success(_SECONDS_MAX)
        server.expect_success(_SECONDS_MAX)

    def test_ucx_rc(self):
        self._check("rc_v,ud_v")

    def test_ucx_ud(self):
        self._check("ud_v")
