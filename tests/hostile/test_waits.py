"""A program that has the daemon wait for it: by descriptors that it passes, by what it reads."""

from hostile_case import HostileCase


class Waits(HostileCase):
    def test_socket_that_lingers(self):
        """close() of a TCP socket with SO_LINGER, which came with a record that doesn't want it."""
        self.check_victim(lambda: self.attack("waits", "linger"))

    def test_socket_that_lingers_unread(self):
        """The same in a record that nobody receives, since the connection ends before."""
        self.check_victim(lambda: self.attack("waits", "unread"))

    def test_file_that_is_not_closed(self):
        """close() of a file whose file system is the program (FUSE) and doesn't answer."""
        self.check_victim(lambda: self.attack("waits", "close"))

    def test_xrc_domain_of_a_silent_file_system(self):
        """fstat() of such a file, as an XRC domain's."""
        self.check_victim(lambda: self.attack("waits", "xrc"))

    def test_events_read_into_a_slow_page(self):
        """Events for a program that reads them into a page which never comes in."""
        self.check_victim(lambda: self.attack("waits", "events"))

    def test_events_that_nobody_reads(self):
        """Asynchronous events in a loop, of four sessions."""
        self.check_victim(lambda: self.attack("unread", "events", 4))

    def test_channels_that_nobody_reads(self):
        """32 completion channels of each of four sessions, armed for every WRITE."""
        self.check_victim(lambda: self.attack("unread", "channels", 4), set_up_counts=False)
