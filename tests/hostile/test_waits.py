"""A program that tries to make the daemon wait for it: by descriptors that it passes, or by the memory into which it reads."""

from hostile_case import HostileCase


class Waits(HostileCase):
    def test_socket_that_lingers(self):
        """close() of a TCP socket with SO_LINGER, which came with a record that takes no descriptor."""
        self.check_victim(lambda: self.attack("waits", "linger"))

    def test_socket_that_lingers_unread(self):
        """The same in a record that is never received, since the connection ends before."""
        self.check_victim(lambda: self.attack("waits", "unread"))

    def test_file_that_is_not_closed(self):
        """close() of a file whose file system is the program (FUSE) and doesn't answer."""
        self.check_victim(lambda: self.attack("waits", "close"))

    def test_xrc_domain_of_a_silent_file_system(self):
        """fstat() of such a file, passed for an XRC domain."""
        self.check_victim(lambda: self.attack("waits", "xrc"))

    def test_events_read_into_a_slow_page(self):
        """Events for a program that reads them into a page that is never populated."""
        self.check_victim(lambda: self.attack("waits", "events"))

    def test_events_that_nobody_reads(self):
        """Four sessions cause asynchronous events in a loop."""
        self.check_victim(lambda: self.attack("unread", "events", 4))

    def test_channels_that_nobody_reads(self):
        """32 completion channels of each of four sessions, armed for every WRITE."""
        self.check_victim(lambda: self.attack("unread", "channels", 4), set_up_counts=False)
