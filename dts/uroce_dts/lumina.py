"""Lumina's rules (SIGCOMM'23), checked on the packets that pass a switch: what a sender may retransmit, how a receiver may report a gap,
what part of a READ may be requested again, when a CNP is due; and what the counters must then be.
"""

import struct
from dataclasses import dataclass, field

from api.test import verify

MTU = 1024  # of the path
_NOBODY = {"asker": 0, "answerer": 0}
_SACK_MARK = int.from_bytes(b"uroc", "big")


def _nothing(*_):
    """No rule applies to the packet."""


@dataclass
class Sequence:
    """The packets of a stream that one end has received, and the gaps that it could see meanwhile."""
    expected: int
    ahead: set = field(default_factory=set)
    gaps: set = field(default_factory=set)  # (first missing, one after the last missing)
    stuck: set = field(default_factory=set)  # what was expected when something later came

    def take(self, psn):
        """True if it reveals a gap."""
        if psn < self.expected or psn in self.ahead:
            return False
        gaps = len(self.gaps)
        newest = max(self.ahead, default=self.expected - 1)
        if psn > newest + 1:
            self.gaps.add((newest + 1, psn))
        self.ahead.add(psn)
        while self.expected in self.ahead:
            self.ahead.remove(self.expected)
            self.expected += 1
        if self.ahead:
            self.stuck.add(self.expected)
        return len(self.gaps) > gaps


@dataclass
class Seen:
    """The events of one pair, counted as the counters should."""
    resent: list = field(default_factory=list)  # PSNs, from 0 on
    resent_by_sack: set = field(default_factory=set)  # which no NAK named
    sacks: int = 0  # that the answerer sent
    timeouts: int = 0
    naks: int = 0  # that the answerer sent
    naks_given: int = 0
    duplicates: int = 0  # given to the answerer
    reads_again: list = field(default_factory=list)  # (PSN, packets)
    gaps: int = 0  # that the answerer saw
    holes: int = 0  # in READ responses, that the asker saw
    marked: dict = field(default_factory=lambda: dict(_NOBODY))  # given to
    notices: dict = field(default_factory=lambda: dict(_NOBODY))  # sent by
    notices_given: dict = field(default_factory=lambda: dict(_NOBODY))  # given to
    notice_age: float = 0  # from the last packet of the end that got the CNP
    latencies: list = field(default_factory=list)  # (what, seconds)

    def counters(self, end):
        """The values that the end's counters must have."""
        asker = end == "asker"
        return {"packet_seq_err": self.naks_given * asker, "implied_nak_seq_err": self.holes * asker,
                "local_ack_timeout_err": self.timeouts * asker, "rnr_nak_retry_err": 0,
                "requests_resent": (len(self.resent) + len(self.reads_again)) * asker,
                "out_of_sequence": self.gaps * (not asker), "naks_sent": self.naks * (not asker),
                "duplicate_request": self.duplicates * (not asker), "sacks_sent": self.sacks * (not asker),
                "np_ecn_marked_roce_packets": self.marked[end], "np_cnp_sent": self.notices[end]}


class Rules:
    """Checks the packets of one pair, entry by entry. A broken rule fails the case at once. `timer`: retransmissions by
    timeout are allowed."""

    def __init__(self, pair, timer=False):
        self._pair, self._timer = pair, timer
        self.seen = Seen()
        self._asked = 0  # PSNs, by requests sent for the first time
        self._acknowledged = 0  # as far as the asker knows
        self._run = None  # the next PSN of a retransmission by timeout
        self._named = set()  # PSNs, by NAKs that were given
        self._named_by_sack = set()  # the same, by SACKs between uroces
        self._told = set()  # NAKs that were sent
        self._said = 0  # how far the responder's last answer acknowledged
        self._requests = Sequence(0)  # at the answerer
        self._answers = Sequence(0)  # of READs, at the asker
        self._answers_wanted = []  # how often each was requested, as far as the responder knows
        self._answers_sent = []
        self._cause = None  # when a gap or a NAK was delivered that hasn't been reacted to
        self._spoke = {"asker": 0.0, "answerer": 0.0}  # when

    def end(self):
        """Ends the check; returns what was seen."""
        # A repeated request may share the answer of the previous one, if that wasn't answered yet.
        verify(all(1 <= sent <= wanted for sent, wanted in zip(self._answers_sent, self._answers_wanted)),
               f"READ responses sent {self._answers_sent} times, but requested {self._answers_wanted} times")
        self.seen.gaps, self.seen.holes = len(self._requests.stuck), len(self._answers.gaps)
        return self.seen

    def see(self, entry):
        """The next one."""
        frame = entry.frame
        to = {self._pair.asker_qpn: "asker", self._pair.answerer_qpn: "answerer"}.get(frame.qpn)
        if to is None or entry.spoilt:
            return
        sender = "asker" if to == "answerer" else "answerer"
        if entry.given:
            self.seen.marked[to] += entry.marked
        else:
            self._spoke[sender] = entry.seconds
        if not frame.name.startswith("RC_"):
            {"CNP": self._notice, "UROCE_SACK": self._sack}.get(frame.name, _nothing)(entry, sender, to)
            return
        psn = (frame.psn - self._pair.psn) & 0xFFFFFF
        kind = "read" if "_READ_" in frame.name else "request" if to == "answerer" else "word"
        if kind == "read":
            kind = "read_request" if to == "answerer" else "read_response"
        getattr(self, f"_{kind}_{'given' if entry.given else 'sent'}")(entry, psn)

    def _notice(self, entry, sender, to):
        """No CNP without a mark."""
        if entry.given:
            self.seen.notices_given[to] += 1
            self.seen.notice_age = max(self.seen.notice_age, entry.seconds - self._spoke[to])
        else:
            self.seen.notices[sender] += 1
            verify(self.seen.notices[sender] <= self.seen.marked[sender], f"{entry.frame} without a mark")

    def _sack(self, entry, _sender, _to):
        """Packets that it acknowledges have arrived; the missing ones between them count as named."""
        first = (entry.frame.psn - self._pair.psn) & 0xFFFFFF
        mark, _serial = struct.unpack_from("!II", entry.frame.payload)
        bits = int.from_bytes(entry.frame.payload[8:], "little")
        received = {first + i for i in range(bits.bit_length()) if bits >> i & 1}
        missing = set(range(first, first + bits.bit_length())) - received
        if entry.given:
            self._named_by_sack |= missing
            return
        self.seen.sacks += 1
        verify(mark == _SACK_MARK and all(psn < self._requests.expected or psn in self._requests.ahead for psn in received),
               f"{entry.frame} acknowledges {sorted(received)}; {self._requests}")

    def _react(self, what, entry):
        if self._cause:
            self.seen.latencies.append((what, entry.seconds - self._cause))
            self._cause = None

    # SEND and WRITE

    def _request_sent(self, entry, psn):
        """Retransmissions begin where a NAK says, with only that packet; otherwise nothing is out of order."""
        if psn == self._asked:
            self._asked += 1
            return
        self.seen.resent.append(psn)
        if psn in self._named:
            self._react("reaction to a NAK", entry)
        elif psn in self._named_by_sack:
            self.seen.resent_by_sack.add(psn)
        elif self._timer and psn == self._acknowledged:
            self.seen.timeouts += 1
            self._run = psn + 1
        elif self._timer and psn == self._run:
            self._run += 1
        else:
            verify(False, f"{entry.frame} is out of order: NAKs named {sorted(self._named)}, {self._asked} is next")

    def _request_given(self, entry, psn):
        self.seen.duplicates += psn < self._requests.expected
        if self._requests.take(psn):
            self._cause = entry.seconds

    # ACK and NAK

    def _word_sent(self, entry, psn):
        """One NAK per gap, which names the first missing packet; acknowledgements never go back."""
        if entry.frame.syndrome_name().startswith("NAK"):
            verify(psn in self._requests.stuck, f"{entry.frame} names no gap; there were {self._requests.stuck}")
            verify(psn not in self._told, f"{entry.frame}: a second NAK for one gap")
            self._told.add(psn)
            self.seen.naks += 1
            self._react("NAK generation", entry)
            position = psn
        else:
            verify(psn < self._requests.expected, f"{entry.frame} acknowledges more than arrived")
            position = psn + 1
        verify(position >= self._said, f"{entry.frame} goes back: the previous answer acknowledged up to {self._said}")
        self._said = position

    def _word_given(self, entry, psn):
        nak = entry.frame.syndrome_name().startswith("NAK")
        self._acknowledged = max(self._acknowledged, psn if nak else psn + 1)
        if nak:
            self.seen.naks_given += 1
            self._named.add(psn)
            self._cause = entry.seconds

    # READ

    def _read_request_sent(self, entry, psn):
        """A repeated request covers exactly the missing range."""
        address, _, length = struct.unpack("!QII", entry.frame.header)
        count = -(-length // MTU)
        if psn == self._asked:
            self._base = address - psn * MTU
            self._asked += count
            return
        end = self._asked if self._timer else psn + count
        rest = (self._answers.expected, end)
        allowed = self._answers.gaps | ({rest} if self._timer else set())
        verify((psn, psn + count) in allowed and address == self._base + psn * MTU,
               f"{entry.frame} asks for {count} packets from {psn} on at {address:#x}; missing were {sorted(allowed)}")
        self.seen.timeouts += self._timer and (psn, psn + count) == rest
        self.seen.reads_again.append((psn, count))
        self._react("reaction to a gap", entry)

    def _read_request_given(self, entry, psn):
        count = -(-struct.unpack("!QII", entry.frame.header)[2] // MTU)
        self.seen.duplicates += psn < len(self._answers_wanted)
        missing = psn + count - len(self._answers_wanted)
        self._answers_wanted += [0] * missing
        self._answers_sent += [0] * missing
        for i in range(psn, psn + count):
            self._answers_wanted[i] += 1

    def _read_response_sent(self, _, psn):
        self._answers_sent[psn] += 1

    def _read_response_given(self, entry, psn):
        if self._answers.take(psn):
            self._cause = entry.seconds
