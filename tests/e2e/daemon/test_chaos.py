"""Random faults of a machine, beside programs whose every byte is verified.

Two daemons, joined by a veth pair. On each a victim that writes, makes and destroys objects all the while, and between them random
operations of apps/integrity in both directions. Meanwhile programs are killed, daemons stopped and continued, the link goes down and up,
addresses are added and removed, and hostile programs run. UROCE_CHAOS_SEED chooses another run, which the log names.
"""

import os
import random
import re
import signal
import time

from harness.case import E2eCase
from harness.process import Process, wait_until
from harness.programs import start_pair
from harness.victim import ATTACKER, Victim, WaitsForProcessor, as_user
from verbs.test_integrity import SHAPE

_SECONDS, _WARM_SECONDS = (1800, 300) if os.environ.get("UROCE_E2E_LONG") else (60, 5)
_LOOKS = 6  # of the daemons' resources, which are printed
_SEED = int(os.environ.get("UROCE_CHAOS_SEED") or random.SystemRandom().randrange(1 << 31))
_HANG_SECONDS_MAX = 2.0
_TURNS_MAX = 100  # for which excuses are kept
_OPERATIONS = 3_000  # of one integrity run; the next begins when it is done
_STOP_SECONDS, _FLAP_SECONDS, _ATTACK_SECONDS = (0.1, 1.0), (0.05, 0.4), (0.5, 2.0)
_TIMEOUT = 18  # 1.07 s, seven times: a peer that is away for longer is dead
_ATTACK_BEGINS_SECONDS_MAX = 120  # attacks that exhaust a resource take seconds, and more on a busy machine
_HOSTILE = (("records",), ("shares", "channels"), ("shares", "qps"), ("status",))
# How much each may grow after the warm-up. (Of memory 18 to 78 MiB after 5 s, and 50 to 76 at the end, also after 30 minutes:
# what malloc keeps of the peaks of several threads.)
_DESCRIPTORS_MORE, _MAPPINGS_MORE, _MEMORY_MORE_MIB = 16, 64, 64


def _resources(daemon):
    """The resources that a daemon holds: descriptors, mappings, memory."""
    folder = f"/proc/{daemon.process.pid}"
    with open(f"{folder}/status", encoding="ascii") as status:
        resident = int(re.search(r"RssAnon:\s+(\d+) kB", status.read()).group(1))
    with open(f"{folder}/maps", encoding="utf-8", errors="replace") as maps:
        mappings = sum(1 for _ in maps)
    return {"descriptors": len(os.listdir(f"{folder}/fd")), "mappings": mappings, "resident_mib": resident / 1024}


# Errors of integrity runs that couldn't start: their TCP connection failed, or ARP got no answer.
_MET_A_LINK_THAT_WAS_DOWN = ("can't connect", "No route to host")


class _Traffic:
    """integrity between the two ends, run after run; `server` says which end listens."""

    def __init__(self, case, wire, seed, backwards):
        self._case, self._wire, self._seed = case, wire, seed
        self._ends = _Ends(wire, backwards)
        self.runs = self.operations = 0
        self._pair = None

    def turn(self):
        """Checks on the current run; starts the next when it is done."""
        if self._pair is not None:
            server, client = self._pair
            if any(end.ended() and said in end.err() for end in self._pair for said in _MET_A_LINK_THAT_WAS_DOWN):
                for end in self._pair:
                    end.end()
                self._pair = None
                return
            if not (server.ended() and client.ended()):
                return
            out = client.expect_success(0)
            server.expect_success(0)
            done, errors = map(int, re.search(r"(\d+) operations, (\d+) errors", out).groups())
            self._case.assertEqual(errors, 0, out)
            self.operations += done
        self.runs += 1
        self._pair = start_pair(self._case, self._ends, self._case.tree.integrity,
                                ("--ops", _OPERATIONS, "--seed", self._seed + self.runs, "--qps", 2, "--timeout", _TIMEOUT),
                                shape=SHAPE)

    def finish(self):
        if self._pair is not None:
            wait_until(self._over, 120, "the last run of integrity")
            self.turn()
        for process in self._pair or ():
            process.end()

    def _over(self):
        server, client = self._pair
        return client.ended() and (server.ended() or "can't connect" in client.err())


class _Ends:
    """A wire, optionally with server and client swapped."""

    def __init__(self, wire, backwards):
        self.server, self.client = (wire.client, wire.server) if backwards else (wire.server, wire.client)
        self.expect_running = wire.expect_running


class _Excuses:
    """How long the chaos itself, or processor contention, stalled a victim or its daemon: not to be taken for a hang."""

    def __init__(self, pairs):
        self._waits = [WaitsForProcessor(victim.pid, daemon.process.pid) for victim, daemon in pairs]
        self._turns = [(time.monotonic(), 0.0, [0.0 for _ in self._waits])]

    def turn(self, caused):
        """Records a finished turn that stalled things for so many seconds."""
        _, caused_before, waited_before = self._turns[-1]
        waited = [before + waits.since_last_time() for before, waits in zip(waited_before, self._waits)]
        self._turns = self._turns[-_TURNS_MAX:] + [(time.monotonic(), caused_before + caused, waited)]

    def of(self, victim, seconds):
        """The excused time for something that ended in the last turn and took `lasted` seconds; several stalls in a row may count."""
        begun = self._turns[-2][0] - seconds
        _, caused, waited = next((turn for turn in reversed(self._turns) if turn[0] <= begun), self._turns[0])
        _, caused_now, waited_now = self._turns[-1]
        return caused_now - caused + waited_now[victim] - waited[victim]


class Chaos(E2eCase):
    seconds_max = _WARM_SECONDS + _SECONDS + 360

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o777)
        self.random = random.Random(_SEED)
        self.network = self.wire("veth")
        self.bystanders = []
        self.attacks = 0
        self.excuses = None

    def test_chaos(self):
        print(f"UROCE_CHAOS_SEED={_SEED}", flush=True)
        victims = [Victim(self, daemon) for daemon in self.network.daemons]
        traffic = [_Traffic(self, self.network, _SEED % 100_000 + 50_000 * number, backwards)
                   for number, backwards in enumerate((False, True))]
        actions = (self.kill_a_program, self.stop_a_daemon, self.flap_the_link, self.change_an_address, self.attack)
        for daemon in self.network.daemons:  # caches fill
            for words in _HOSTILE:
                self.attack_with(daemon, words)
        for victim in victims:
            self.assertEqual(victim.phase("caches fill")["errors"], [])
        self.excuses = _Excuses(zip(victims, self.network.daemons))
        self.rounds(victims, traffic, actions, _WARM_SECONDS)
        before = [_resources(daemon) for daemon in self.network.daemons]
        rounds = 0
        for _ in range(_LOOKS):
            rounds += self.rounds(victims, traffic, actions, _SECONDS / _LOOKS)
            print({"meanwhile": [_resources(daemon) for daemon in self.network.daemons]}, flush=True)
        for run in traffic:
            run.finish()
        self.end_bystanders()
        self.settle()
        after = [_resources(daemon) for daemon in self.network.daemons]
        operations = sum(run.operations for run in traffic)
        print({"rounds": rounds, "integrity_runs": sum(run.runs for run in traffic), "operations": operations,
               "attacks": self.attacks, "before": before, "after": after}, flush=True)
        self.assertGreater(operations, 0, "no data was verified")
        for old, new in zip(before, after):
            self.assertLessEqual(new["descriptors"], old["descriptors"] + _DESCRIPTORS_MORE)
            self.assertLessEqual(new["mappings"], old["mappings"] + _MAPPINGS_MORE)
            self.assertLessEqual(new["resident_mib"], old["resident_mib"] + _MEMORY_MORE_MIB)

    def rounds(self, victims, traffic, actions, seconds):
        """Performs random actions for that long; returns how many."""
        end, count = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            for run in traffic:
                run.turn()
            action = self.random.choice(actions)
            caused = action()
            print(f"{action.__name__}: {caused:.2f} s of standstill are its own", flush=True)
            told_of_all = [victim.phase(action.__name__) for victim in victims]
            self.excuses.turn(caused)
            for number, told in enumerate(told_of_all):
                self.assertEqual(told["errors"], [])
                for lasted in (told["answer_max_ms"] / 1e3, told["write_max_us"] / 1e6):
                    excused = self.excuses.of(number, lasted)
                    print(f"{told['phase']}: {lasted:.2f} s, of which {excused:.2f} s are excused", flush=True)
                    self.assertLess(lasted, _HANG_SECONDS_MAX + excused)
            self.network.expect_running()
            count += 1
        return count

    # Each action returns for how many seconds it has itself stalled things.

    def kill_a_program(self):
        """kill -9 of a program in the middle of its work; a new one replaces it."""
        daemon = self.random.choice(self.network.daemons)
        self.bystanders.append(Process([*as_user(ATTACKER), self.tree.hostile_program("victim")],
                                       f"{self.next_number()}-bystander", self.logs, daemon.environment()))
        self.addCleanup(self.bystanders[-1].end)
        if len(self.bystanders) > 2:
            self.bystanders.pop(self.random.randrange(len(self.bystanders))).kill()
        time.sleep(self.random.uniform(0.05, 0.5))
        return 0.0

    def stop_a_daemon(self):
        """As a debugger, a paused virtual machine, or a very busy one would."""
        daemon = self.random.choice(self.network.daemons)
        seconds = self.random.uniform(*_STOP_SECONDS)
        begun = time.monotonic()
        daemon.process.signal(signal.SIGSTOP)
        time.sleep(seconds)
        daemon.process.signal(signal.SIGCONT)
        return time.monotonic() - begun

    def flap_the_link(self):
        end = self.random.choice(self.network.namespaces)
        seconds = self.random.uniform(*_FLAP_SECONDS)
        begun = time.monotonic()
        end.run("ip", "link", "set", "wire", "down")
        time.sleep(seconds)
        end.run("ip", "link", "set", "wire", "up")
        return time.monotonic() - begun

    def change_an_address(self):
        daemon = self.random.choice(self.network.daemons)
        address = f"10.88.{self.random.randrange(256)}.1"
        for command in (("add", f"{address}/24"), ("del", address)):
            answer = self.uroce("addr", *command, daemon=daemon)
            self.assertEqual(answer.returncode, 0, answer.stderr)
        return 0.0

    def attack(self):
        return self.attack_with(self.random.choice(self.network.daemons), self.random.choice(_HOSTILE))

    def attack_with(self, daemon, words):
        """An attack that ends by itself is a failure of the test."""
        process = Process([*as_user(ATTACKER), self.tree.hostile_program("attack"), *words], f"{self.next_number()}-{words[0]}",
                          self.logs, daemon.environment(), cwd=self.folder)
        self.addCleanup(process.end)
        wait_until(lambda: "attacking" in process.out() or process.ended(), _ATTACK_BEGINS_SECONDS_MAX, f"{' '.join(words)} to begin")
        time.sleep(self.random.uniform(*_ATTACK_SECONDS))
        self.assertFalse(process.ended(), f"{process.name} ended by itself: {process.last_words()}")
        self.attacks += 1
        process.kill()
        return 0.0

    def end_bystanders(self):
        for process in self.bystanders:
            process.end()

    def settle(self):
        """Sessions of programs that have ended are gone."""
        for daemon in self.network.daemons:
            wait_until(lambda daemon=daemon: len(self.status(daemon)["sessions"]) <= 2, 30, "the ends of sessions")
