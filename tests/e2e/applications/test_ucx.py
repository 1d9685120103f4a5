"""UCX and libfabric find the card: `ucx_info -d` and `fi_info -p verbs` list its transports."""

import shutil

from harness.case import E2eCase
from harness.process import Process

_SECONDS_MAX = 30


class Discovery(E2eCase):
    def output_of(self, *command):
        if shutil.which(command[0]) is None:
            self.skipTest(f"{command[0]} isn't installed")
        wire = self.wire("loopback")
        program = Process(list(command), command[0], self.logs, wire.server.environment())
        self.addCleanup(program.end)
        return program.expect_success(_SECONDS_MAX)

    def test_ucx_lists_transports(self):
        self.need_character_device()
        lines = [line.split() for line in self.output_of("ucx_info", "-d").splitlines()]
        pairs = [(lines[i][-1], lines[i + 1][-1]) for i, line in enumerate(lines) if "Transport:" in line]
        for transport in ("rc_verbs", "ud_verbs"):
            self.assertIn((transport, "uroce0:1"), pairs)

    def test_libfabric_lists_endpoints(self):
        out = self.output_of("fi_info", "-p", "verbs")
        self.assertIn("domain: uroce0-dgram", out)
