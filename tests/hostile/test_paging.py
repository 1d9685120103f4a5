"""What an attacker does with on-demand paging; the victim pages on demand, too."""

from hostile_case import HostileCase

_SESSIONS = 2


class Paging(HostileCase):
    def test_huge_invalidations(self):
        """A thousand chunks come in, and all addresses are taken away, in a loop."""
        self.check_victim(lambda: self.attack("paging", "invalidations", _SESSIONS), ["--on-demand"], set_up_counts=False)

    def test_endless_prefetches(self):
        """Prefetches for which no program ever says what lies there."""
        self.check_victim(lambda: self.attack("paging", "prefetches", _SESSIONS), ["--on-demand"], set_up_counts=False)
