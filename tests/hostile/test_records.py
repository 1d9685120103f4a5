"""Records that no program of ours would send."""

from hostile_case import HostileCase


class Records(HostileCase):
    def test_random_records(self):
        """Random records with odd descriptors, in one session after the other, for as long as the case takes."""
        self.check_victim(lambda: self.attack("records"))

    def test_scribbled_pages(self):
        """Pages by which programs ask without a system call say all the time that something is asked, which is nonsense half the time: four sessions at it."""
        self.check_victim(lambda: self.attack("page", 4))
