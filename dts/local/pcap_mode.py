"""The card without a network: a suite's console commands become a script, its frames a capture, and `uroce replay`
answers. No state is kept between calls: each time everything is replayed from the case's beginning.

What needs a running daemon (work that the card sends by itself, time, ARP and ICMP, changes between packets) is left out: such a
case is skipped and says why.
"""

import os
import subprocess

from api.test import TestSkipped
from uroce_dts.packets import BARRIER
from uroce_dts.pcap_files import read_capture, write_capture

_MAC = "02:00:00:00:00:01"
_MAKE = ("region", "fill", "qp", "recv")
_RUNNING = (" srq", "type=XRC", "send_psn=", "other_pd")  # features that queue pairs of scripts don't have
_LOOK = ("memory", "show", "poll", "event", "counters")


class PcapCard:
    """Replaces the daemon with its console, and the wire."""

    def __init__(self, replay, folder, card_ip):
        self._replay, self._folder, self._card_ip = replay, folder, card_ip
        self.begin_case()

    def begin_case(self):
        self._script = [f"card mac={_MAC} ip={self._card_ip}"]
        self._asked, self._frames, self._given, self.in_case = [], [], 0, True

    def end_case(self):
        """From now on commands only clean up."""
        self.in_case = False

    def command(self, text):
        """The console's answer."""
        verb = text.split()[0]
        if verb == "port":
            return f"mac={_MAC} link=up mtu=4200 path_mtu=4096\ngid=::ffff:{self._card_ip}\ngid=fe80::1"
        if not self.in_case:
            return "event=none" if verb == "event" else "done=yes"
        if verb == "poll" and " send" in text:
            raise TestSkipped("in pcap mode the card sends nothing by itself")
        if verb in _LOOK:
            answer = self._run(text)[0][-1]
            if verb in ("poll", "event") and not answer.endswith("=none"):
                self._asked.append(text)  # consumed completions and events stay consumed
            return answer
        if verb not in _MAKE or (verb == "qp" and any(word in text for word in _RUNNING)):
            raise TestSkipped(f"pcap mode has no `{verb}` like that: the card sends nothing by itself, shares no queues")
        if self._frames:
            raise TestSkipped(f"in pcap mode all is set up before packets come; `{verb}` is too late")
        self._script.append(text)
        refusal = self._run()[2]
        words = dict(word.partition("=")[::2] for word in text.split())
        return refusal or f"key={words.get('key')} address={words.get('iova')} qpn={words.get('qpn')} posted=yes"

    def exchange(self, frames, patient):
        """The card's answers to these frames. `patient`: the case waits for frames that the card sends by itself."""
        frames = [frame for frame in frames if not _is_barrier(frame)]
        if not self.in_case:
            return []
        if patient or any(not _is_roce(frame) for frame in frames):
            raise TestSkipped("in pcap mode no time passes, and ARP and ICMP aren't answered")
        self._frames += frames
        answers = self._run()[1]
        fresh, self._given = answers[self._given:], len(answers)
        return fresh

    def _run(self, *questions):
        """Returns (answers to all commands, answer frames, error line or None)."""
        paths = [os.path.join(self._folder, name) for name in ("in.pcap", "out.pcap", "script")]
        write_capture(paths[0], self._frames)
        with open(paths[2], "w", encoding="utf-8") as script:
            script.write("\n".join([*self._script, *self._asked, *questions]) + "\n")
        done = subprocess.run([self._replay, paths[0], "--out", paths[1], "--script", paths[2]], capture_output=True,
                              text=True, timeout=60, check=False)
        if done.returncode:
            return [], [], "error=" + done.stderr.strip()
        questions = done.stdout.split("\n? ")[1:]
        answers = [text.partition("\n")[2] for text in questions]
        if answers:
            answers[-1] = answers[-1].rpartition("\nframes=")[0]
        return answers, read_capture(paths[1]), None


def _is_roce(frame):
    """Or so malformed that control doesn't get it either."""
    kind = frame[12:14]
    icmp = (kind == b"\x08\x00" and frame[23:24] == b"\1") or (kind == b"\x86\xdd" and frame[20:21] == b"\x3a")
    return kind in (b"\x08\x00", b"\x86\xdd", b"\x81\x00") and not icmp


def _is_barrier(frame):
    return len(frame) >= 42 and frame[12:14] == b"\x08\x00" and frame[23] == 1 and frame[38:40] == BARRIER.to_bytes(2, "big")
