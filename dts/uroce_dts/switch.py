"""A switch between two queue pairs of the card, emulated frame by frame: what one sends to the peer's address is sent back to
the card for the other. It injects events into single packets, as Lumina does with network cards (SIGCOMM'23).

The rules get all packets in order: those that the card sent, and those passed to it. Nothing is passed on during a
capture, so the order that they see is the true one.
"""

import struct
import time
from dataclasses import dataclass

from api.test import fail, verify
from scapy.utils import checksum

from uroce_dts import packets
from uroce_dts.packets import Answer, answer

LISTEN_SECONDS = 0.35  # for what the card sends by itself
_LATER_MS = 100  # until the card posts: by then the capture is running
_TURNS_MAX = 200  # turns of passing on and capturing, in one exchange
_ECN, _ECT_0, _CE = 3, 2, 3
_MACS, _ETHERNET, _IP, _ICRC = 12, 14, 20, 4


@dataclass(frozen=True)
class Pair:
    """Two queue pairs of the card. PSNs of requests and of what answers them begin with `psn`."""
    asker: str
    asker_qpn: int
    answerer: str
    answerer_qpn: int
    psn: int


@dataclass
class Event:
    """Happens to the packet with the `psn`-th PSN, counted from 0, when it passes for the `iteration`-th time: `drop`, `ce`
    (marked as congested), `corrupt`, `dup`, `late` (after the next frame)."""
    action: str
    psn: int
    iteration: int = 1
    response: bool = False
    pair: int = 0
    passed: int = 0

    def hits(self, frame, pairs):
        """Counts the packet if it matches; true if the event happens."""
        pair = pairs[self.pair]
        qpn = pair.asker_qpn if self.response else pair.answerer_qpn
        if not frame.name.startswith("RC_") or frame.qpn != qpn or frame.psn != (pair.psn + self.psn) & 0xFFFFFF:
            return False
        self.passed += 1
        return self.passed == self.iteration


@dataclass(frozen=True)
class Entry:
    """A packet that passes."""
    given: bool  # passed to the card; else sent by it
    frame: Answer
    seconds: float
    spoilt: bool = False
    marked: bool = False


class Switch:
    """Between `pairs` of `suite`. `rules` have see(entry). REQUIRES: no other traffic while it runs."""

    def __init__(self, suite, pairs, rules, events=()):
        self.spoilt = 0  # packets
        self._suite, self._pairs, self._rules, self._events = suite, pairs, rules, events
        self._held = []  # (bytes, marked, corrupted), to be passed on next

    def run(self, *commands, wanted):
        """Gives these commands to the card's console; passes all frames on, until the requesters have `wanted` completions
        together and the card sends nothing more. Each completion must be a success."""
        self._suite.exchange()  # earlier frames aren't part of this exchange
        for command in commands:
            self._suite.shell.ask(f"later {_LATER_MS} {command}")
        self._listen()
        for _ in range(_TURNS_MAX):
            if self._held:
                self._pass_on()
                continue
            wanted -= self._completions()
            if wanted > 0:
                self._listen()
                continue
            self._pass_on()  # no frames; those still on their way come before the answer to the barrier
            if not self._held:
                return verify(wanted == 0, f"{-wanted} completions too many")
        return fail(f"no end after {_TURNS_MAX} turns, {wanted} completions missing")

    def _show(self, entry):
        for rules in self._rules:
            rules.see(entry)

    def _completions(self):
        found = 0
        for pair in self._pairs:
            while (words := self._suite.shell.run(f"poll {pair.asker} send wait=0")[0].split()) != ["completion=none"]:
                verify("status=SUCCESS" in words, f"{pair.asker}: {' '.join(words)}")
                found += 1
        return found

    def _listen(self):
        self._take(self._suite.capture([], LISTEN_SECONDS, gapless=True))

    def _pass_on(self):
        held, self._held = self._held, []
        frames = [*[packets.flat(data) for data, _, _ in held], self._suite.barrier()]
        now = time.time()
        for data, marked, spoilt in held:
            self.spoilt += spoilt
            self._show(Entry(True, answer(data), now, spoilt, marked))
        self._take(self._suite.capture(frames, gapless=True))

    def _take(self, captured):
        """Logs a frame that the card sent, and applies events to it."""
        late = []
        for packet in captured:
            frame = answer(packet)
            if frame is None:
                continue
            verify(frame.icrc_right, f"the ICRC of {frame} is wrong")
            self._show(Entry(False, frame, float(packet.time)))
            actions = [event.action for event in self._events if event.hits(frame, self._pairs)]
            data = self._turned(bytes(packet), "ce" in actions)
            if "corrupt" in actions:
                data = data[:-_ICRC - 1] + bytes([data[-_ICRC - 1] ^ 1]) + data[-_ICRC:]
            copies = [(data, "ce" in actions, "corrupt" in actions)] * (2 if "dup" in actions else 1)
            if "late" in actions:
                late = copies
            elif "drop" not in actions:
                self._held += copies + late
                late = []
        self._held += late

    def _turned(self, data, marked):
        """The frame as it is sent back: from the peer to the card."""
        ends = self._suite.ends
        ip = bytearray(data[_ETHERNET:_ETHERNET + struct.unpack_from("!H", data, _ETHERNET + 2)[0]])
        if marked:
            verify(ip[1] & _ECN == _ECT_0, f"not ECN-capable: its TOS is {ip[1]:#x}")
            ip[1] |= _CE
        ip[12:16], ip[16:20] = ip[16:20], ip[12:16]
        ip[10:12] = bytes(2)
        ip[10:12] = struct.pack("!H", checksum(bytes(ip[:_IP])))
        return packets.seal(bytes(ends.ethernet())[:_MACS] + b"\x08\x00" + bytes(ip))
