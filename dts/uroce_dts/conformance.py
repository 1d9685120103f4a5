"""Plays the conformance corpus (tests/conformance/cases, whose README defines the format) on the wire."""

import glob
import os
from dataclasses import dataclass, field

from api.test import skip, verify

from uroce_dts.bench import PEER_QPN, QPN
from uroce_dts.headers import OPCODES
from uroce_dts.packets import pattern, request

CASES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                     "tests", "conformance", "cases")
_REGION_DISTANCE, _FIRST_KEY, _QKEY = 1 << 20, 0x4100, 0x11111111
_CORPUS_PEER_QPN = 34  # of the in-memory test bench


@dataclass
class Line:
    number: int
    verb: str
    words: list  # of (name, value or None)

    def get(self, name, otherwise=None):
        return next((value for key, value in self.words if key == name), otherwise)

    def number_of(self, name, otherwise=0):
        value = self.get(name)
        return otherwise if value is None else int(value, 0)

    def has(self, name):
        return any(key == name for key, _ in self.words)

    @property
    def subject(self):
        return self.words[0][0]


@dataclass
class Script:
    name: str
    file: str
    in_memory: bool  # it needs what a wire can't guarantee
    lines: list = field(default_factory=list)


def scripts():
    """All cases of the corpus."""
    found = []
    for path in sorted(glob.glob(os.path.join(CASES, "*.case"))):
        with open(path, encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                words = text.split("#")[0].split()
                if not words:
                    continue
                if words[0] == "case":
                    found.append(Script(words[1], os.path.basename(path).removesuffix(".case"), "in_memory" in words))
                    continue
                pairs = [(word.partition("=")[0], word.partition("=")[2] if "=" in word else None)
                         for word in words[1:]]
                found[-1].lines.append(Line(number, words[0], pairs))
    return found


_KNOWN = {
    "qp": {"type", "qkey", "mtu", "psn", "rd_atomic", "rnr", "access", "state", "srq"},
    "region": {"length", "access", "iova", "other_pd"}, "remove": set(), "recv": {"to"},
    ">": {"psn", "payload", "seed", "at", "ack", "solicited", "imm", "invalidate", "rkey", "compare", "swap", "add",
          "placement", "selectivity", "pkey", "qkey", "src_qp", "srq", "stranger", "drop"},
    "<": {"psn", "syndrome", "msn", "payload", "from", "original"}, "silence": set(),
    "=": {"wr", "status", "opcode", "length", "imm", "qp", "src_qp", "grh", "invalidated"}, "event": set(), "state": set(),
    "modify": set(), "remove_srq": set(), "window": {"of", "type", "access", "zero_based", "other_qp", "other_pd"},
    "memory": {"seed", "skip", "value"},
}


def not_on_the_wire(script):
    """Returns why this case can't be played here; empty if it can."""
    if script.in_memory:
        return "it needs what a wire can't guarantee (tests/conformance/cases/README.md)"
    for line in script.lines:
        if line.verb not in _KNOWN:
            return f"the console has no command for `{line.verb}`"
        if line.verb == "qp" and line.get("type", "RC") not in ("RC", "UC", "UD", "XRC_RECV"):
            return f"the console makes no queue pair of type {line.get('type')}"
        if line.verb == "remove" and any(other.verb == "window" and (other.get("of") or "").startswith(line.subject + "+")
                                         for other in script.lines):
            return "a program can't deregister a region to which a window is bound"
        if line.verb == "region" and "persistent" in (line.get("access") or ""):
            return "the console's memory isn't persistent, and the card doesn't say that it is"
        names = line.words[1:] if line.verb in ("region", "window", "recv", ">", "<", "memory") else line.words
        for name, _ in names:
            if name not in _KNOWN[line.verb] and line.verb not in ("remove", "event", "state", "modify"):
                return f"the console has no command for `{line.verb} {name}`"
        if line.verb in "<>" and line.subject not in OPCODES:
            return f"no frames are made here for {line.subject}"
    return ""


@dataclass
class _Memory:
    iova: int
    key: int
    length: int


class Player:
    """Plays one script on a RoceSuite."""

    def __init__(self, suite, script):
        self.suite, self.script = suite, script
        self.regions, self.burst, self.dropped, self.answers = {}, [], {}, []
        self.qp_made, self.qpn, self.srq = False, QPN, 0

    def play(self):
        reason = not_on_the_wire(self.script)
        if reason:
            skip(reason)
        for line in self.script.lines:
            self.where = f"{self.script.file}.case:{line.number}"
            if line.verb != "qp" and line.verb != "region" and not self.qp_made:
                self._make_qp(Line(line.number, "qp", []))
            if line.verb != ">":
                self._settle()
            self._STEPS[line.verb](self, line)
        self._settle()
        verify(not self.answers, f"{self.where}: left over: {list(map(str, self.answers))}")
        self.suite.expect_no_completion()
        got = self._next_event()
        verify(got == "none", f"{self.where}: the event {got} is left over")

    def _make_qp(self, line):
        words = {name: (True if value is None else value) for name, value in line.words}
        made = self.suite.qp(**words)
        # Numbers can't be chosen for XRC receiving queue pairs.
        self.qpn, self.srq = int(made.get("qpn", QPN)), int(made.get("srq", 0))
        self.qp_made = True

    def _region(self, line):
        index = len(self.regions) + 1
        memory = _Memory(line.number_of("iova", _REGION_DISTANCE * index), _FIRST_KEY + (index << 8),
                         line.number_of("length"))
        windows = any(other.verb == "window" for other in self.script.lines)
        options = {"access": line.get("access", "local+read+write+atomic+bind")} if line.has("access") or windows else {}
        self.suite.region(line.subject, memory.length, memory.key, memory.iova, 0,
                          **({"other_pd": True} if line.has("other_pd") else {}), **options)
        self.regions[line.subject] = memory

    def _window(self, line):
        """Bound by the queue pair under test, or by one that is made for it."""
        words, memory = "", _Memory(0, 0, 0)
        if line.has("of"):
            _, region, offset, length = self._place(line.get("of"))
            binder, other_pd = "q", {"other_pd": True} if line.has("other_pd") else {}
            if line.has("other_qp") or other_pd:
                binder = "binder"
                self.suite.qp(binder, qpn=QPN + 1, **other_pd)
            words = f"of={line.get('of')} qp={binder}"
            memory = _Memory(0 if line.has("zero_based") else region.iova + offset, 0, length)
        words += "".join(f" {name}" if value is None else f" {name}={value}" for name, value in line.words[1:]
                         if name in ("type", "access", "zero_based", "other_pd"))
        memory.key = int(self.suite.window(line.subject, words)["rkey"])
        self.regions[line.subject] = memory

    def _remove(self, line):
        self.suite.shell.ask(f"remove {line.subject}")

    def _remove_srq(self, _line):
        self.suite.shell.ask("remove_srq q")

    def _recv(self, line):
        places = " ".join(f"to={value}" for name, value in line.words[1:] if name == "to")
        self.suite.shell.ask(f"recv q {line.subject} {places}")

    def _place(self, text):
        place, _, length = text.partition(":")
        region, _, offset = place.partition("+")
        memory = self.regions[region]
        offset = int(offset or "0", 0)
        return region, memory, offset, int(length, 0) if length else memory.length - offset

    def _packet(self, line):
        psn = line.number_of("psn")
        payload = pattern(line.number_of("seed", psn), line.number_of("payload"))
        fields = {name: line.number_of(name) for name in ("imm", "compare", "swap", "add")}
        if line.has("at"):
            _, memory, offset, length = self._place(line.get("at"))
            fields.update(address=memory.iova + offset, rkey=memory.key, length=length)
        if line.has("rkey"):
            rkey = line.get("rkey")
            fields["rkey"] = self.regions[rkey].key if rkey in self.regions else int(rkey, 0)
        if line.has("invalidate"):
            invalidate = line.get("invalidate")
            fields["invalidate"] = self.regions[invalidate].key if invalidate in self.regions else int(invalidate, 0)
        if line.subject.startswith("XRC_"):
            fields["srq"] = self.srq ^ 0x800000 if line.has("srq") else self.srq  # the corpus names a queue pair that doesn't exist
        fields["qkey"] = line.number_of("qkey", _QKEY)
        fields["source_qp"] = line.number_of("src_qp", PEER_QPN)
        fields.update({name: line.number_of(name) for name in ("placement", "selectivity") if line.has(name)})
        if line.has("pkey"):
            fields["pkey"] = line.number_of("pkey")
        ends = self.suite.ends.stranger() if line.has("stranger") else self.suite.ends
        self.burst.append(request(ends, line.subject, self.qpn, psn, payload, ack=line.has("ack"),
                                  solicited=line.has("solicited"), **fields))
        if line.has("drop"):
            self.dropped[line.get("drop")] = self.dropped.get(line.get("drop"), 0) + 1

    def _settle(self):
        """Sends the burst, once; its answers are kept to be checked."""
        if not self.burst:
            return
        before = self.suite.drops() if self.dropped else {}
        self.answers += self.suite.exchange(*self.burst)
        self.burst = []
        if self.dropped:
            after = self.suite.drops()
            for reason, count in self.dropped.items():
                counted = after.get(reason, 0) - before.get(reason, 0)
                verify(counted == count, f"{self.where}: {counted} packets were dropped as {reason}, not {count}")
            self.dropped = {}

    def _skip_plain_acks(self, wanted):
        """Skips acknowledgements that a later answer covers, as a burst that was split causes them."""
        while (len(self.answers) > 1 and str(self.answers[0]).startswith(("RC_ACKNOWLEDGE", "XRC_ACKNOWLEDGE")) and
               self.answers[0].syndrome_name() == "ACK" and self._difference(self.answers[0], wanted)):
            self.answers.pop(0)

    def _difference(self, got, line):
        if got.name != line.subject:
            return f"{got} isn't a {line.subject}"
        for name, found in (("psn", got.psn), ("msn", got.msn), ("payload", len(got.payload)),
                            ("original", got.original)):
            if line.has(name) and line.number_of(name) != found:
                return f"its {name} is {found}, not {line.get(name)}"
        if line.has("syndrome") and line.get("syndrome") != got.syndrome_name():
            return f"its syndrome is {got.syndrome_name()}, not {line.get('syndrome')}"
        if not got.icrc_right:
            return "its ICRC is wrong"
        if got.qpn != PEER_QPN:
            return f"it goes to queue pair {got.qpn:#x}"
        return ""

    def _answer(self, line):
        self._skip_plain_acks(line)
        verify(bool(self.answers), f"{self.where}: no answer, but {line.subject} was expected")
        got = self.answers.pop(0)
        difference = self._difference(got, line)
        verify(not difference, f"{self.where}: {difference}")
        if line.has("from"):
            region, _, offset, _ = self._place(line.get("from"))
            if got.payload:
                held = self.suite.shell.ask(f"memory {region}+{offset}:{len(got.payload)}")["bytes"]
                verify(bytes.fromhex(held) == got.payload, f"{self.where}: the payload isn't what {region} holds")

    def _silence(self, _line):
        verify(not self.answers, f"{self.where}: silence was expected, not {list(map(str, self.answers))}")

    def _completion(self, line):
        got = self.suite.shell.ask("poll q recv wait=2000")
        for name, value in line.words:
            if name == "qp" and int(value, 0) != QPN:
                continue  # the in-memory test bench has another number
            if name == "grh":
                name, value = "grh", "yes"
            found = got.get({"src_qp": "source_qp"}.get(name, name))
            if name == "src_qp" and int(value, 0) == _CORPUS_PEER_QPN:
                value = str(PEER_QPN)
            if name == "invalidated" and value in self.regions:
                value = str(self.regions[value].key)
            same = found is not None and (found == value or (value[:1].isdigit() and found.isdigit() and
                                                             int(found) == int(value, 0)))
            verify(same, f"{self.where}: the completion's {name} is {found}, not {value}: {got}")

    def _next_event(self, wait=0):
        """A receiving XRC queue pair stays in RTR here, so its first packet is an event (IBTA vol. 1, 11.6.3.1)."""
        got = self.suite.shell.ask(f"event wait={wait}")["event"]
        return self._next_event(wait) if self.srq and got == "COMM_EST" else got

    def _event(self, line):
        got = self._next_event(2000)
        verify(got == line.subject, f"{self.where}: the event {got}, not {line.subject}")

    def _state(self, line):
        self.suite.expect_state(line.subject)

    def _modify(self, line):
        self.suite.shell.ask(f"modify q state={line.subject}")

    def _memory(self, line):
        region, memory, offset, length = self._place(line.subject)
        place = f"{region}+{offset}:{length}"
        if line.has("value"):
            self.suite.expect_memory(place, value=line.number_of("value"))
        elif line.has("seed"):
            self.suite.expect_memory(place, line.number_of("seed"), line.number_of("skip"))
        else:
            self.suite.expect_memory(place, 0, offset)

    _STEPS = {"qp": _make_qp, "region": _region, "remove": _remove, "recv": _recv, ">": _packet, "<": _answer,
              "silence": _silence, "=": _completion, "event": _event, "state": _state, "modify": _modify,
              "memory": _memory, "window": _window, "remove_srq": _remove_srq}
