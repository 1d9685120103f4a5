"""The base of all suites: a daemon with a console, and a peer made of single frames."""

import time
from dataclasses import dataclass

from api.packet import send_packets, send_packets_and_capture
from api.test import verify
from framework.test_suite import BaseConfig, TestSuite

from uroce_dts import packets
from uroce_dts.console import UrocedShell
from uroce_dts.packets import Ends, Everything, answers, flat

QPN, PEER_QPN, KEY, IOVA = 0x000111, 0x000222, 0x00ABCD, 0x10000
LINK_SECONDS = 1.0  # how long a capture lasts; it ends earlier where the answer to the barrier is seen
TIMER_SECONDS = 0.6
ANNOUNCE_SECONDS = 20  # the lifetime of the daemon's neighbour entries


class Config(BaseConfig):
    """The machine-specific parameters of a test run."""
    uroced: str = "/usr/local/sbin/uroced"
    port: str = ""  # a vdev string; empty: the first PCI device that DTS gives to the application
    card_ip: str = "10.99.0.1"
    peer_ip: str = "10.99.0.2"
    peer_mac: str = "02:00:00:00:00:02"
    mtu: int = 4200
    arguments: str = ""


@dataclass
class Region:
    name: str
    key: int
    iova: int
    length: int


def _words(options):
    """As the console's syntax requires: name=value, or just the name where the value is True."""
    return " ".join(key if value is True else f"{key}={value}" for key, value in options.items())


class RoceSuite(TestSuite):
    """Each case has a fresh queue pair and region, unless it says otherwise."""

    config: Config
    Config = Config
    daemon_arguments: tuple = ()  # of this suite

    def set_up_suite(self):
        """Starts the daemon, and lets it learn the peer's MAC address."""
        config = self.config
        self.shell = UrocedShell(config.uroced, f"{config.card_ip}/24", config.mtu, config.port or None,
                                 [*config.arguments.split(), *self.daemon_arguments])
        self.shell.start_application()
        port = self.shell.ask("port")
        self.ends = Ends(port["mac"], config.card_ip, config.peer_mac, config.peer_ip)
        self._sequence = 0
        self._announce()

    def tear_down_suite(self):
        """Stops the daemon."""
        self.shell.close()

    def set_up_test_case(self):
        """Removes what an earlier case has left."""
        self._made = []
        if time.monotonic() - self._announced > ANNOUNCE_SECONDS:
            self._announce()

    def _announce(self):
        self._announced = time.monotonic()
        send_packets([flat(packets.arp_request(self.ends))])
        self.exchange()

    def tear_down_test_case(self):
        """Removes what the case made, and reads the events that it left unread."""
        for command in reversed(self._made):
            self.shell.send_command(command)
        while self.shell.ask("event").get("event", "none") != "none":
            pass

    # What a case needs

    def qp(self, name="q", qpn=QPN, psn=100, **options):
        """A queue pair of the card's, connected to ours."""
        options = {"peer": self.ends.peer_ip, "qpn": qpn, "peer_qpn": PEER_QPN, "psn": psn, "mtu": 1024, **options}
        answer = self.shell.ask(f"qp {name} {_words(options)}")
        self._made.append(f"destroy {name}")
        return answer

    def region(self, name="A", length=4096, key=KEY, iova=IOVA, seed=0, **options):
        """Registers memory of the card's program, filled with the pattern of `seed`."""
        answer = self.shell.ask(f"region {name} length={length} key={key} iova={iova} seed={seed} {_words(options)}")
        self.remove_later(name)
        return Region(name, int(answer["key"]), int(answer["address"]), length)

    def window(self, name, words):
        """A memory window, bound as the words say. It is removed before its region and its queue pair."""
        answer = self.shell.ask(f"window {name} {words}")
        self._made.append(f"free {name}")
        return answer

    def remove_later(self, name):
        """The region is removed when the case ends."""
        self._made += [f"forget {name}", f"remove {name}"]

    # Traffic

    def request(self, opcode, psn, payload=b"", **fields):
        """A frame of the peer's for the queue pair under test."""
        ends = fields.pop("ends", self.ends)
        return packets.request(ends, opcode, fields.pop("qpn", QPN), psn, payload, **fields)

    def exchange(self, *frames, seconds=None):
        """Sends frames; returns the card's RoCEv2 answers. With `seconds`: all that comes in that time."""
        sent = [flat(frame) for frame in frames]
        if seconds is None:
            sent.append(self.barrier())
        return answers(self.capture(sent, seconds or LINK_SECONDS))

    def barrier(self):
        """A barrier, to be sent last: its answer shows that everything before was served."""
        self._sequence = (self._sequence + 1) & 0xFFFF
        return flat(packets.echo_request(self.ends, sequence=self._sequence))

    def capture(self, sent, seconds=LINK_SECONDS, gapless=False):
        """The same for packets of any kind, answers untouched."""
        return send_packets_and_capture(sent, Everything(gapless=gapless), seconds)

    # What a case verifies

    def expect(self, got, *wanted):
        """The answers are these, each given as "NAME psn=N ACK|NAK:c|RNR:c msn=N payload=N" in any part."""
        verify(len(got) == len(wanted), f"{len(wanted)} answers expected, got {len(got)}: {list(map(str, got))}")
        for found, text in zip(got, wanted):
            verify(found.icrc_right, f"the ICRC of {found} is wrong")
            words = str(found).split()
            missing = [word for word in text.split() if word not in words]
            verify(not missing, f"expected {text}, got {found}")

    def expect_memory(self, place, seed=None, skip=0, value=None):
        """Checks the card's memory at "A+16:64": for the pattern, or a number of 8 bytes."""
        if value is not None:
            got = self.shell.ask(f"memory {place}")["bytes"]
            verify(int.from_bytes(bytes.fromhex(got), "little") == value, f"{place} is {got}, not {value}")
        else:
            got = self.shell.ask(f"memory {place} seed={seed} skip={skip}")
            verify(got["match"] == "yes", f"{place} isn't the pattern of {seed} from {skip} on: {got}")

    def expect_state(self, state, name="q"):
        got = self.shell.ask(f"show {name}")["state"]
        verify(got == state, f"the queue pair is in {got}, not in {state}")

    def expect_completion(self, text, name="q", side="recv", wait=2000):
        """Checks that the next completion has these key=value words."""
        words = self.shell.run(f"poll {name} {side} wait={wait}")[0].split()
        missing = [word for word in text.split() if word not in words]
        verify(not missing, f"expected a completion with {text}, got {' '.join(words)}")

    def expect_no_completion(self, name="q", side="recv"):
        self.expect_completion("completion=none", name, side, wait=0)

    def expect_event(self, event):
        got = self.shell.ask("event wait=2000")["event"]
        verify(got == event, f"expected the event {event}, got {got}")

    def drops(self):
        """The counters of dropped packets, by reason."""
        return {key.removeprefix("drop."): value for key, value in self.counters().items() if key.startswith("drop.")}

    def counters(self, name=""):
        """The counters of the port, or of a queue pair, by their names in `uroce status --json`."""
        return {key: int(value) for key, value in self.shell.ask(f"counters {name}").items()}

    def expect_dropped(self, reason, *frames):
        """Checks that the frames aren't answered, and that each is counted under the reason."""
        before = self.drops().get(reason, 0)
        self.expect(self.exchange(*frames))
        counted = self.drops().get(reason, 0) - before
        verify(counted == len(frames), f"{counted} of {len(frames)} packets were counted as {reason}; {self.drops()}")
