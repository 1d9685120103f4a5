"""ibv_asyncwatch: asynchronous events as a program sees them."""

from harness.case import E2eCase
from harness.process import wait_until
from harness.programs import start

_SECONDS_MAX = 10


class AsyncEvents(E2eCase):
    def _watch(self, endpoint):
        watch = start(self, endpoint, ["stdbuf", "-oL", "ibv_asyncwatch"], "asyncwatch")
        wait_until(lambda: "async event FD" in watch.out() or watch.ended(), _SECONDS_MAX, "asyncwatch")
        return watch

    def test_daemon_dies(self):
        wire = self.wire("loopback")
        watch = self._watch(wire.server)
        wire.server.daemon.process.kill()
        wait_until(lambda: "IBV_EVENT_DEVICE_FATAL" in watch.out(), _SECONDS_MAX, "IBV_EVENT_DEVICE_FATAL")
        watch.expect_failure(_SECONDS_MAX)

    def test_addresses_come_and_go(self):
        """`uroce addr add` and `del` change the GID table, and programs get an event for both."""
        wire = self.wire("loopback")
        watch = self._watch(wire.server)
        for change, heard in (("add", 1), ("del", 2)):
            answer = self.uroce("addr", change, "10.88.0.7/24", daemon=wire.server.daemon)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            wait_until(lambda: watch.out().count("IBV_EVENT_GID_CHANGE") == heard, _SECONDS_MAX, "IBV_EVENT_GID_CHANGE")

    def test_link_goes(self):
        """The other end of a shared-memory wire dies: the port goes down and reports it."""
        wire = self.wire("shared_memory")
        watch = self._watch(wire.client)
        wire.server.daemon.process.kill()
        wait_until(lambda: "IBV_EVENT_PORT_ERR" in watch.out(), _SECONDS_MAX, "IBV_EVENT_PORT_ERR")
        self.assertEqual(self.status(wire.client.daemon)["devices"][0]["link"], "down")
