"""A statically linked program (static-PIE) that loads libibverbs by dlopen."""

from harness.application import ApplicationCase

_SECONDS_MAX = 30


class StaticProgram(ApplicationCase):
    def test_dlopen(self):
        """glibc makes no threads for such a program's libraries: its memory is reached without being shared."""
        program, end = self.compiled("static_check.c", "gcc", "-static-pie"), self.card()
        process = self.start(end, "static", program, 1, environment={"UROCE_DEBUG": "1"})
        self.assertIn("all right", process.expect_success(_SECONDS_MAX))
        self.assertIn("the libc of a statically linked program can't be hooked", process.err())
