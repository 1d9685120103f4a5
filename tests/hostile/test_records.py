"""Records that the shim would never send."""

from hostile_case import HostileCase


class Records(HostileCase):
    def test_random_records(self):
        """Random records with odd descriptors, in one session after the other, for as long as the case takes."""
        self.check_victim(lambda: self.attack("records"))

    def test_scribbled_pages(self):
        """Four sessions whose shared page for commands without a system call always shows a request, half of them invalid."""
        self.check_victim(lambda: self.attack("page", 4))
