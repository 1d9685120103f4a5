"""What has a worker work for one user."""

from hostile_case import HostileCase


class Work(HostileCase):
    def test_busy_queue_pairs(self):
        """400 queue pairs that always have something to send, against one of the victim's."""
        self.check_victim(lambda: self.attack("busy", 400), ["--bytes", 262144], set_up_counts=False)

    def test_resized_queues(self):
        """The largest completion queues, said to be full of what was never in them, go over to other rings: eight sessions at it."""
        self.check_victim(lambda: self.attack("resize", "cq", 8))
