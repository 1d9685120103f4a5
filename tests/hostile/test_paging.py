"""Attacks by on-demand paging; the victim's memory is paged on demand, too."""

from hostile_case import HostileCase

_SESSIONS = 2


class Paging(HostileCase):
    def test_huge_invalidations(self):
        """A thousand chunks are populated, and the whole address space is invalidated, in a loop."""
        self.check_victim(lambda: self.attack("paging", "invalidations", _SESSIONS), ["--on-demand"], set_up_counts=False)

    def test_endless_prefetches(self):
        """Prefetches of ranges that the program never describes."""
        self.check_victim(lambda: self.attack("paging", "prefetches", _SESSIONS), ["--on-demand"], set_up_counts=False)
