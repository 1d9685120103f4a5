"""Memory that a program registers by its descriptor (ibv_reg_dmabuf_mr): a memfd, and where there is /dev/udmabuf, a dmabuf."""

from harness.application import ApplicationCase

_SECONDS_MAX = 30
_NO_UDMABUF = 77


class Descriptors(ApplicationCase):
    def _check(self, kind, *more):
        program, end = self.compiled("dmabuf_check.c", "gcc", "-libverbs"), self.card()
        process = self.start(end, kind, *more, program, 1, kind, environment={"UROCE_DEBUG": "1"})
        if process.wait(_SECONDS_MAX) == _NO_UDMABUF:
            self.skipTest(process.out().strip())
        self.assertIn("all right", process.expect_success(0))
        # A WRITE, a READ and a SEND of 100,000 bytes each.
        self.expect_sent(3 * 100_000 - 1, end.daemon)
        self.assertEqual(self.status(end.daemon)["workers"][0]["copies"], 0, "it was accessed through /proc/PID/mem")

    def test_memfd(self):
        self._check("MEMFD")

    def test_udmabuf(self):
        self._check("UDMABUF")
