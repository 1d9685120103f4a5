"""Lumina's matrix (SIGCOMM'23): one event happens to one packet of a message, and both ends must react and count exactly as specified.

Both ends are queue pairs of the card; the wire between them is emulated here, packet by packet (uroce_dts/switch.py). The packets are
checked against Lumina's rules (uroce_dts/lumina.py), and the counters against the packets. The latencies are printed; the
tester's own time is in them.
"""

import time

from api.capabilities import LinkTopology, requires_link_topology
from api.test import log, verify
from framework.test_suite import func_test

from uroce_dts import packets
from uroce_dts.bench import IOVA, KEY, PEER_QPN, QPN, RoceSuite
from uroce_dts.lumina import MTU, Rules
from uroce_dts.packets import pattern
from uroce_dts.switch import LISTEN_SECONDS, Event, Pair, Switch

_SEND_PSN = 500
_PACKETS = 8  # of a message
_BYTES = _PACKETS * MTU
_FAR_KEY, _FAR_IOVA = KEY + 0x100, 0x100000
_NO_TIMER, _TIMER = 20, 17  # 4.3 s, 0.54 s
_INTERVAL_SECONDS = 0.5
_STALE_SECONDS = 0.9  # a CNP that comes a second after the last packet has no cause
_MANY = 12  # READs that lose a packet each, which stalled other flows on a card


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceLumina(RoceSuite):
    """Events: drop, ECN mark, bit error, duplicate, late. Of SEND, WRITE and READ."""

    daemon_arguments = ("--congestion", "dcqcn", "--cnp-interval", str(int(_INTERVAL_SECONDS * 1e6)))

    def pass_message(self, opcode, *events, pairs=1, timer=False, length=_BYTES):
        """Sends a message of eight packets, or of that many bytes, on each pair, with one event or more. Checks rules and counters;
        returns what was seen of each pair. `timer`: whether retransmissions by timeout are allowed."""
        reads = opcode == "READ"
        self.region("near", length * pairs, seed=0 if reads else 6)
        self.region("far", length * pairs, key=_FAR_KEY, iova=_FAR_IOVA, seed=6 if reads else 0)
        ends = [self._pair(i, _TIMER if timer else _NO_TIMER) for i in range(pairs)]
        for i, pair in enumerate(ends):
            if opcode == "SEND":
                self.shell.ask(f"recv {pair.answerer} 1 to=far+{i * length}:{length}")
        errors = self.counters()["rx_icrc_encapsulated"]
        rules = [Rules(pair, timer) for pair in ends]
        switch = Switch(self, ends, rules, events)
        switch.run(*[f"send {pair.asker} 1 opcode={opcode} from=near+{i * length}:{length} "
                     f"address={_FAR_IOVA + i * length} rkey={_FAR_KEY}" for i, pair in enumerate(ends)], wanted=pairs)
        self.expect_memory(f"{'near' if reads else 'far'}+0:{length * pairs}", seed=6)
        errors = self.counters()["rx_icrc_encapsulated"] - errors
        verify(errors == switch.spoilt, f"rx_icrc_encapsulated went up by {errors}; {switch.spoilt} packets were corrupted")
        seen = [its.end() for its in rules]
        for pair, its in zip(ends, seen):
            self._verify_counters(pair.asker, its, "asker")
            self._verify_counters(pair.answerer, its, "answerer")
        for what, seconds in seen[0].latencies:
            log(f"{opcode}: {what}: {seconds * 1e6:.0f} us")
        return seen

    def _pair(self, i, timeout):
        pair = Pair(f"asker{i}", QPN + i, f"answerer{i}", PEER_QPN + i, _SEND_PSN)
        self.qp(pair.asker, pair.asker_qpn, _SEND_PSN, peer_qpn=pair.answerer_qpn, send_psn=_SEND_PSN, timeout=timeout)
        self.qp(pair.answerer, pair.answerer_qpn, _SEND_PSN, peer_qpn=pair.asker_qpn, send_psn=_SEND_PSN, timeout=timeout)
        return pair

    def _verify_counters(self, name, seen, end):
        got = self.counters(name)
        wrong = {key: (got[key], value) for key, value in seen.counters(end).items() if got[key] != value}
        verify(not wrong, f"{name} has counted (and should have): {wrong}; {seen}")
        heeded = (got["rp_cnp_handled"], got["rp_cnp_ignored"])
        verify(heeded == (seen.notices_given[end], 0) or seen.notice_age > _STALE_SECONDS and sum(heeded) == seen.notices_given[end],
               f"{name} has handled and ignored {heeded} CNPs; {seen}")

    def _fresh(self, opcode, *events, **options):
        """The same after removing everything that the case made before. Returns what was seen of pair 0."""
        self.tear_down_test_case()
        self.set_up_test_case()
        return self.pass_message(opcode, *events, **options)[0]

    @func_test
    def nothing(self) -> None:
        """No event.

        Steps:
            Pass on a message of each kind.

        Verify:
            Nothing is repeated, nothing counted.
        """
        for opcode in ("SEND", "WRITE", "READ"):
            seen = self._fresh(opcode)
            verify(not seen.resent + seen.reads_again and not seen.naks, f"{opcode}: {seen}")

    @func_test
    def lost_request(self) -> None:
        """Drop.

        Steps:
            Lose the fifth packet of a SEND and of a WRITE.

        Verify:
            One NAK, which names it; it alone is sent again.
        """
        for opcode in ("SEND", "WRITE"):
            self._one_gap(self._fresh(opcode, Event("drop", 4)))

    def _one_gap(self, seen):
        verify(seen.naks == 1 and seen.gaps == 1 and set(seen.resent) == {4} and not seen.timeouts, f"{seen}")

    @func_test
    def request_lost_twice(self) -> None:
        """Drop, iterations 1 and 2.

        Steps:
            Lose the fifth packet, and again when it is retransmitted.

        Verify:
            There is no other NAK; it is sent a third time, by the card's own clock: roce_adp_retrans.
        """
        for opcode in ("SEND", "WRITE"):
            seen = self._fresh(opcode, Event("drop", 4), Event("drop", 4, iteration=2))
            self._one_gap(seen)
            verify(len(seen.resent) >= 2, f"{seen}")
            by_clock = self.counters("asker0")["roce_adp_retrans"]
            verify(by_clock == len(seen.resent) - 1, f"roce_adp_retrans is {by_clock}: {seen}")

    @func_test
    def two_requests_lost(self) -> None:
        """Drop, two packets of a message.

        Steps:
            Lose the third and the sixth packet.

        Verify:
            One NAK each, one after the other; they alone are sent again.
        """
        for opcode in ("SEND", "WRITE"):
            seen = self._fresh(opcode, Event("drop", 2), Event("drop", 5))
            verify(seen.naks == seen.gaps == 2 and set(seen.resent) == {2, 5}, f"{seen}")

    @func_test
    def holes_of_a_window_are_reported(self) -> None:
        """Drop, eleven in a message: between two uroces.

        Steps:
            Lose eight packets, and three behind them.

        Verify:
            After the eighth NAK the card requests selective acknowledgements; what a SACK shows missing is retransmitted
            without a NAK for each.
        """
        losses = {*range(1, 16, 2), 18, 21, 24}
        for opcode in ("SEND", "WRITE"):
            seen = self._fresh(opcode, *[Event("drop", psn) for psn in losses], length=28 * MTU)
            verify(set(seen.resent) == losses and seen.resent_by_sack >= {21, 24}, f"{seen}")
            handled = self.counters("asker0")["sacks_handled"]
            verify(1 <= handled <= seen.sacks, f"sacks_handled is {handled}: {seen}")

    @func_test
    def last_request_lost(self) -> None:
        """Drop of the last packet.

        Steps:
            Lose the last packet.

        Verify:
            No NAK; the timer has all of it that isn't acknowledged sent again, in order.
        """
        for opcode in ("SEND", "WRITE"):
            seen = self._fresh(opcode, Event("drop", _PACKETS - 1), timer=True)
            verify(not seen.naks and seen.timeouts >= 1 and seen.resent[-1] == _PACKETS - 1, f"{seen}")

    @func_test
    def words_lost(self) -> None:
        """Drop of the receiver's responses.

        Steps:
            Lose the acknowledgement; lose a packet and the NAK about it.

        Verify:
            The retransmission timer repairs it; there is no second NAK; no request is executed twice.
        """
        for opcode in ("SEND", "WRITE"):
            seen = self._fresh(opcode, Event("drop", _PACKETS - 1, response=True), timer=True)
            verify(not seen.naks and seen.timeouts >= 1 and seen.duplicates >= 1, f"{seen}")
            seen = self._fresh(opcode, Event("drop", 4), Event("drop", 4, response=True), timer=True)
            verify(seen.naks == 1 and not seen.naks_given and seen.timeouts >= 1, f"{seen}")

    @func_test
    def a_peer_that_buffers_nothing(self) -> None:
        """Drop, with an emulated peer that buffers no out-of-order packets: the fifth packet of a message, the third of the next.

        Steps:
            Send a NAK for the fifth packet; when it is retransmitted, acknowledge it alone. Send a NAK for the next message's third.

        Verify:
            The fifth alone, then all after it in order; of the next message, all from the third on at once.
        """
        self.region("near", _BYTES)
        self.qp("q", send_psn=_SEND_PSN, timeout=_NO_TIMER)
        self._send_to_peer(1, _SEND_PSN)
        self._word(0x60, 4, [4])
        self._word(0x1F, 4, [5, 6, 7])
        self._word(0x1F, 7, [])
        self._send_to_peer(2, _SEND_PSN + _PACKETS)
        self._word(0x60, 10, [10, 11, 12, 13, 14, 15])
        self._word(0x1F, 15, [])
        for wr in (1, 2):
            self.expect_completion(f"wr={wr} status=SUCCESS", side="send")
        got = self.counters("q")
        verify(got["packet_seq_err"] == 2 and got["resends_gone_back"] == 2 and not got["local_ack_timeout_err"], f"{got}")

    def _send_to_peer(self, wr, psn):
        """Posts a message whose first packet has this PSN; returns its packets."""
        self.shell.ask(f"later 100 send q {wr} opcode=SEND from=near+0:{_BYTES}")
        heard = self.exchange(seconds=LISTEN_SECONDS)
        verify([frame.psn for frame in heard] == list(range(psn, psn + _PACKETS)), f"{list(map(str, heard))}")

    def _word(self, syndrome, psn, wanted):
        """Sends the peer's answer; the next packets must begin with these. Unanswered ones may be repeated meanwhile."""
        word = packets.acknowledge(self.ends, QPN, _SEND_PSN + psn, syndrome=syndrome)
        got = [frame.psn - _SEND_PSN for frame in self.exchange(word)]
        verify(got[:len(wanted)] == wanted and set(got) == set(wanted), f"{wanted} should have been retransmitted, {got} were")

    @func_test
    def request_with_a_bit_error(self) -> None:
        """Corrupt.

        Steps:
            Flip a bit of the fifth packet.

        Verify:
            As if it were lost; rx_icrc_encapsulated counts it.
        """
        for opcode in ("SEND", "WRITE"):
            self._one_gap(self._fresh(opcode, Event("corrupt", 4)))

    @func_test
    def duplicate_and_late_requests(self) -> None:
        """Dup, late.

        Steps:
            Pass the fifth packet on twice; pass it on behind the sixth.

        Verify:
            A duplicate is counted, and nothing else; a late packet is a gap with at most one NAK.
        """
        for opcode in ("SEND", "WRITE"):
            seen = self._fresh(opcode, Event("dup", 4))
            verify(seen.duplicates == 1 and not seen.naks and not seen.resent, f"{seen}")
            seen = self._fresh(opcode, Event("late", 4))
            verify(seen.gaps == 1 and seen.naks <= 1 and set(seen.resent) <= {4}, f"{seen}")

    @func_test
    def marked_requests(self) -> None:
        """ECN mark.

        Steps:
            Mark the fifth packet; mark all.

        Verify:
            One CNP, which the sender handles; no other within the interval.
        """
        for opcode in ("SEND", "WRITE"):
            for marks in ((4,), range(_PACKETS)):
                start = time.monotonic()
                seen = self._fresh(opcode, *[Event("ce", psn) for psn in marks])
                self._notices_are_due(seen, "answerer", len(marks), time.monotonic() - start)
                verify(not seen.resent, f"{seen}")

    def _notices_are_due(self, seen, end, marks, seconds):
        """As many CNPs as the interval allows: one, if everything took no longer than that."""
        due = range(1, 2 + int(seconds / _INTERVAL_SECONDS))
        verify(seen.marked[end] == marks and seen.notices[end] in due, f"{due} notifications in {seconds:.2f} s: {seen}")

    @func_test
    def notifications_have_a_gap(self) -> None:
        """ECN marks from an emulated peer, further apart than the interval.

        Steps:
            Send two marked WRITEs to each of two queue pairs; wait for the interval; send another.

        Verify:
            Each queue pair sends one notification, and one more.
        """
        self.region()
        for i in range(2):
            self.qp(f"q{i}", QPN + i, 100, peer_qpn=PEER_QPN + i)
        start = time.monotonic()
        self._mark_each((100, 101))
        took = time.monotonic() - start
        self._mark_each((), _INTERVAL_SECONDS + 0.1)
        self._mark_each((102,))
        for i in range(2):
            got = self.counters(f"q{i}")
            verify(got["np_ecn_marked_roce_packets"] == 3, f"{got}")
            verify(got["np_cnp_sent"] == 2 or took > _INTERVAL_SECONDS and got["np_cnp_sent"] == 3, f"{got}")

    def _mark_each(self, psns, seconds=None):
        self.exchange(*[self.request("RC_WRITE_ONLY", psn, pattern(1, 8), qpn=QPN + i, address=IOVA, rkey=KEY, tos=3)
                        for psn in psns for i in range(2)], seconds=seconds)

    @func_test
    def lost_read_response(self) -> None:
        """Drop, READ.

        Steps:
            Lose the fifth packet of the answer; lose it twice; lose the third and the sixth.

        Verify:
            Only the lost packets are requested again, once per loss, and no unrequested response comes.
        """
        for losses in ((4,), (4, 4), (2, 5)):
            events = [Event("drop", psn, 1 + losses[:i].count(psn), response=True) for i, psn in enumerate(losses)]
            seen = self._fresh("READ", *events)
            verify(set(seen.reads_again) == {(psn, 1) for psn in losses} and seen.holes == len(set(losses)), f"{seen}")
            verify(len(seen.reads_again) >= len(losses), f"{seen}")

    @func_test
    def end_of_a_read_lost(self) -> None:
        """Drop, READ, last packet.

        Steps:
            Lose the request; lose the last packet of the answer.

        Verify:
            After the timeout the missing part, and only that, is requested again.
        """
        seen = self._fresh("READ", Event("drop", 0), timer=True)
        verify(set(seen.reads_again) == {(0, _PACKETS)}, f"{seen}")
        seen = self._fresh("READ", Event("drop", _PACKETS - 1, response=True), timer=True)
        verify(set(seen.reads_again) == {(_PACKETS - 1, 1)} and not seen.holes, f"{seen}")

    @func_test
    def spoilt_and_repeated_read_responses(self) -> None:
        """Corrupt, dup and late, READ.

        Steps:
            Flip a bit of the fifth packet of the answer; pass it on twice; pass it on behind the sixth.

        Verify:
            The bit error is treated as a loss; the duplicate is ignored; the late one is requested again once at most.
        """
        seen = self._fresh("READ", Event("corrupt", 4, response=True))
        verify(set(seen.reads_again) == {(4, 1)}, f"{seen}")
        seen = self._fresh("READ", Event("dup", 4, response=True))
        verify(not seen.reads_again, f"{seen}")
        seen = self._fresh("READ", Event("late", 4, response=True))
        verify(seen.holes == 1 and set(seen.reads_again) <= {(4, 1)}, f"{seen}")

    @func_test
    def marked_read_responses(self) -> None:
        """ECN mark, READ.

        Steps:
            Mark a packet of the answer; mark all.

        Verify:
            One CNP, from the requester; the responder handles it.
        """
        for marks in ((4,), range(_PACKETS)):
            start = time.monotonic()
            seen = self._fresh("READ", *[Event("ce", psn, response=True) for psn in marks])
            self._notices_are_due(seen, "asker", len(marks), time.monotonic() - start)

    @func_test
    def others_losses(self) -> None:
        """Twelve READs with a loss each, and one without.

        Steps:
            Lose a packet of the answer of each but one.

        Verify:
            Each requests its lost packet again; the other one repeats nothing.
        """
        events = [Event("drop", 4, response=True, pair=i) for i in range(_MANY)]
        seen = self.pass_message("READ", *events, pairs=_MANY + 1)
        for i, its in enumerate(seen):
            verify(set(its.reads_again) == ({(4, 1)} if i < _MANY else set()), f"pair {i}: {its}")
