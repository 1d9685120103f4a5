"""Debian's librdmacm and its programs, unmodified, over the connection manager of the daemon."""

from harness.case import E2eCase
from harness.rdmacm import run_cm_pair

_WIRES = ("loopback", "veth")


def on_both(case):
    """Class decorator: `check_x(wire)` becomes test_x_loopback and test_x_veth (two namespaces)."""
    for name in [name for name in dir(case) if name.startswith("check_")]:
        for wire in _WIRES:
            def test(self, _check=name, _wire=wire):
                getattr(self, _check)(self.wire(_wire))
            test.__doc__ = getattr(case, name).__doc__
            setattr(case, f"test_{name.removeprefix('check_')}_{wire}", test)
    return case


@on_both
class Programs(E2eCase):
    """Each exits with 0 on both sides."""

    def check_rping(self, wire):
        run_cm_pair(self, wire, ["rping", "-s", "-a", "SERVER", "-p", "PORT", "-C", 10, "-V"],
                    ["rping", "-c", "-a", "SERVER", "-p", "PORT", "-C", 10, "-V"])
