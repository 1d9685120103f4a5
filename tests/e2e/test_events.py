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

    def test_link_goes(self):
        """The other end of a shared-memory wire dies: the port goes down, and says so."""
        wire = self.wire("shared_memory")
        watch = self._watch(wire.client)
        wire.server.daemon.process.kill()
        wait_until(lambda: "IBV_EVENT_PORT_ERR" in watch.out(), _SECONDS_MAX, "IBV_EVENT_PORT_ERR")
        self.assertEqual(self.status(wire.client.daemon)["devices"][0]["link"], "down")
