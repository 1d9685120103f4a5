"""Gloo, the collectives of PyTorch, over its ibverbs transport, as Debian has it: every value compared by the ranks."""

import os

from harness.application import CARD_NAME, LOCKING_NOBODY, ApplicationCase

_SECONDS_MAX = 60
_GID_INDEX = 1
_BYTES_MIN = 100_000_000  # the least that the ranks send together


class Gloo(ApplicationCase):
    user = LOCKING_NOBODY

    def setUp(self):
        super().setUp()
        if not os.path.exists("/usr/include/gloo/transport/ibverbs/device.h"):
            self.skipTest("libgloo-dev isn't installed")

    def _expect_right(self, *ends):
        """A rank for each of `ends`; they find each other by files."""
        program = self.compiled("gloo_check.cc", "g++", "-lgloo", "-libverbs")
        store = os.path.join(self.folder, "store")
        os.mkdir(store)
        os.chmod(store, 0o777)
        ranks = [self.start(end, f"rank{rank}", program, rank, len(ends), store, CARD_NAME, _GID_INDEX)
                 for rank, end in enumerate(ends)]
        for number, rank in enumerate(ranks):
            self.assertIn(f"rank {number} of {len(ends)}: all right", rank.expect_success(_SECONDS_MAX))
        daemons = {id(end.daemon): end.daemon for end in ends}.values()
        self.expect_sent(_BYTES_MIN // len(daemons), *daemons)

    def test_gloo(self):
        self._expect_right(*[self.card()] * 4)

    def test_gloo_two_namespaces(self):
        server, client = self.ordinary(self.wire("veth"))
        self._expect_right(server, client, server)
