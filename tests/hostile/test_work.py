"""Attacks that occupy a worker."""

from hostile_case import HostileCase


class Work(HostileCase):
    def test_busy_queue_pairs(self):
        """400 queue pairs that always have something to send, against one of the victim's."""
        self.check_victim(lambda: self.attack("busy", 400), ["--bytes", 262144], set_up_counts=False)

    def test_resized_queues(self):
        """The largest completion queues, whose indices claim that they are full, are resized by eight sessions."""
        self.check_victim(lambda: self.attack("resize", "cq", 8))
