"""A program or daemon that dies takes only its own objects with it."""

from harness.case import E2eCase
from harness.process import wait_until
from harness.programs import run_pair, start_pair

_OWN_DAEMON_SECONDS_MAX = 2  # without waiting for a protocol timeout
_ERROR_SECONDS_MAX = 30  # perftest's own timeout and retries take less than 10 s


def _endless(setting, wire):
    """Starts a pair that writes until it is stopped; returns when data flows."""
    server, client = start_pair(setting, wire, "ib_write_bw", ("-F", "-x", 1, "-D", 1, "--run_infinitely"))
    wait_until(lambda: "65536" in client.out() or client.ended(), 60, "ib_write_bw's first row")
    if client.ended():
        client.expect_success(0)
    return server, client


class Death(E2eCase):
    def _check_killed_program(self, wire_name):
        wire = self.wire(wire_name)
        server, client = _endless(self, wire)
        before = self.status(wire.server.daemon)
        server.kill()
        client.expect_failure(_ERROR_SECONDS_MAX)
        self.assertIn("ompletion with error", client.out() + client.err())
        wait_until(lambda: not self._owned_by(wire.server.daemon, server.pid), 60, "the dead program's session to vanish")
        self.assertTrue(before)
        run_pair(self, wire, "ibv_rc_pingpong", "-g", 1, "-c", "-n", 100)

    def _owned_by(self, daemon, pid):
        return [session for session in self.status(daemon)["sessions"] if session["pid"] == pid]

    def test_killed_program_loopback(self):
        """Its queue pairs are destroyed, its peer gets an error in bounded time, other programs go on."""
        self._check_killed_program("loopback")

    def test_killed_program_shared_memory(self):
        self._check_killed_program("shared_memory")

    def test_killed_program_shm(self):
        self._check_killed_program("shm")

    def test_killed_program_veth(self):
        self._check_killed_program("veth")

    def test_killed_program_leaves_others_alone(self):
        """Two pairs through the same daemon: one dies, the other isn't affected."""
        wire = self.wire("loopback")
        _, doomed = _endless(self, wire)
        _, other = _endless(self, wire)
        doomed.kill()
        rows = other.out().count("65536")
        wait_until(lambda: other.out().count("65536") > rows + 1, 30, "the other pair going on")
        self.assertFalse(other.ended())

    def _check_killed_daemon(self, wire_name, killed, other):
        wire = self.wire(wire_name)
        server, client = _endless(self, wire)
        program_of_other = client if other == "client" else server
        getattr(wire, killed).daemon.process.kill()
        if other == "client":
            program_of_other.expect_failure(_ERROR_SECONDS_MAX)
        getattr(wire, other).daemon.expect_running()
        self.assertTrue(self.status(getattr(wire, other).daemon)["devices"])
        getattr(wire, other).daemon.stop()

    def test_killed_daemon_shm_server(self):
        self._check_killed_daemon("shm", "server", "client")

    def test_killed_daemon_shm_client(self):
        self._check_killed_daemon("shm", "client", "server")

    def test_killed_daemon_shared_memory_server(self):
        """One side's exit must not bring down the other."""
        self._check_killed_daemon("shared_memory", "server", "client")

    def test_killed_daemon_shared_memory_client(self):
        self._check_killed_daemon("shared_memory", "client", "server")

    def test_killed_daemon_veth(self):
        self._check_killed_daemon("veth", "server", "client")

    def test_programs_survive_their_daemon(self):
        """A program whose own daemon dies gets errors at once, it doesn't crash or hang."""
        wire = self.wire("loopback")
        _, client = _endless(self, wire)
        wire.server.daemon.process.kill()
        client.expect_failure(_OWN_DAEMON_SECONDS_MAX)
        self.assertIn("ompletion with error", client.out() + client.err())

    def test_sleeping_programs_survive_their_daemon(self):
        """The same when both sides sleep on completion channels."""
        wire = self.wire("loopback")
        # perftest has no endless mode with events, so it gets more than a minute's work.
        server, client = start_pair(self, wire, "ib_send_bw", ("-F", "-x", 1, "-e", "-n", 50_000_000))
        wait_until(lambda: self.bytes_sent(wire.server.daemon) > 10 << 20 or client.ended(), 60, "data flowing")
        wire.server.daemon.process.kill()
        client.expect_failure(_OWN_DAEMON_SECONDS_MAX)
        server.expect_failure(_OWN_DAEMON_SECONDS_MAX)
