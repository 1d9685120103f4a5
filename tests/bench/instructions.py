#!/usr/bin/python3
"""The instructions of an RC WRITE of 8 bytes from post to completion, step by step.

    tests/bench/instructions.py [--build FOLDER] [--json] [--alone] [--budget]

Runs `datapath_bench --count` under callgrind with two numbers of messages and subtracts, so that what happens once cancels. The program,
the worker and the other end are all in it. Steps are told by the source files that instructions come from, so the build needs line tables
(meson setup build-lines -Dcpp_args=-g1); without them there are only the sums. In virtual time: two runs of one binary count the same.
"""

import argparse
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FEWER, MORE = 4096, 16384  # messages
WAYS = ("frames", "direct", "spread")
# The limits of --budget, slightly above the current counts: a change that exceeds them must justify it.
BUDGET = {"frames": 2200, "direct": 1240, "spread": 2660}
SKIPPED = 77  # meson's word for it
OTHER = "libraries"  # memcpy, sigsetjmp, DPDK's

# The first that matches the function's name, or the source file, decides.
STEPS = (
    ("poll", r"Program::poll|poll_send|CompletionRing"),
    ("post", r"Program::post|post_send|rdma_wr|/tests/|apps/replay/"),
    ("bell", r"engine/turn/doorbells|abi/doorbell"),
    ("complete", r"Qp::complete|qp/queues/completion_queue"),
    ("ack", r"qp/requester/completer|responder_transmit|send_small|Responder::transmit"),
    ("receive", r"Qp::receive|Qp::admit|Qp::expects|engine/receive|wire/parse|wire/packet|Worker::State::(steer|deliver|drain_frames|is_own)"),
    ("checksum", r"wire/crc/|wire/icrc"),
    ("memory", r"qp/memory/memory|direct/locate|direct/byte_runs|/mmu/|Qp::memory"),
    ("respond", r"qp/responder/responder|responder_direct|qp/queues/receive_queue|qp/direct/request\.h|execute_directly"),
    ("build", r"qp/requester/requester|requester_direct|qp/queues/send_queue|wire/build|wire/frame_writer|wire/layout|qp/opcode_for|unreliable_requester"),
    ("turn", r"engine/|/port/|qp/qp\.|qp/tx_batch|Qp::|qp/congestion"),
)
SHOWN = ("post", "bell", "turn", "build", "receive", "respond", "ack", "complete", "poll", "memory", "checksum", OTHER)


def step_of(function, files):
    """The step of instructions, by their source file or, if that isn't specific (a header), by the function that inlines them."""
    named = function if function.startswith("uroce::") else ""
    for where in (f"{files[0]}", named, *files[1:]):
        for step, pattern in STEPS:
            if where and re.search(pattern, where):
                return step
    return OTHER


class Names:
    """callgrind writes a name in full once, and by number from then on."""

    def __init__(self):
        self.known = {}

    def get(self, text):
        number, _, name = text.partition(" ")
        return self.known.setdefault(number, name) if name else self.known[number]


def read_profile(path):
    """Instructions by step, and whether there were line tables."""
    files, functions, objects = Names(), Names(), Names()
    costs, lines = collections.Counter(), False
    function, home, here, skip = "", "", "", False
    for line in path.read_text(encoding="utf-8").splitlines():
        key, equals, value = line.partition("=")
        if equals and key in ("fl", "fi", "fe", "cfi", "cfl"):
            name = files.get(value)
            if key == "fl":
                home = here = name
            elif key in ("fi", "fe"):
                here = name
                home = name if name.endswith(".cc") else home
        elif equals and key in ("fn", "cfn"):
            name = functions.get(value)
            function = name if key == "fn" else function
        elif equals and key in ("ob", "cob"):
            objects.get(value)
        elif equals and key == "calls":
            skip = True  # the next line's cost is the callee's
        elif re.match(r"[+\-*\d]", line):
            if not skip:
                costs[step_of(function, (here, home))] += int(line.split()[1])
                lines = lines or here.endswith("requester_send.cc")
            skip = False
    return costs, lines


def count(program, way, messages, in_flight):
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder) / "profile"
        subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", program, "--count", way, str(messages), str(in_flight)],
                       check=True, capture_output=True)
        return read_profile(profile)


def measure(program, way, in_flight):
    more, lines = count(program, way, MORE, in_flight)
    fewer, _ = count(program, way, FEWER, in_flight)
    total = round((more.total() - fewer.total()) / (MORE - FEWER))
    steps = {step: round((more[step] - fewer[step]) / (MORE - FEWER)) for step in SHOWN} if lines else {}
    return total, steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "build")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--alone", action="store_true", help="one message at a time (default: 256)")
    parser.add_argument("--budget", action="store_true", help="fail if it is above the limit")
    arguments = parser.parse_args()
    program = arguments.build / "tests/bench/datapath_bench"
    if arguments.budget and shutil.which("valgrind") is None:
        print("skipped: valgrind isn't installed")
        return SKIPPED
    results = {way: measure(program, way, 1 if arguments.alone else 256) for way in WAYS}
    if arguments.budget:
        for way, (total, _) in results.items():
            print(f"an RC WRITE of 8 B, {way}: {total} instructions, {BUDGET[way]} allowed")
        return 0 if all(total <= BUDGET[way] for way, (total, _) in results.items()) else 1
    if arguments.json:
        print(json.dumps({f"{way}_instructions": {"all": total, **steps} for way, (total, steps) in results.items()}))
        return 0
    print(f"{'instructions of 8 B':20}" + "".join(f"{way:>10}" for way in WAYS))
    if not all(steps for _, steps in results.values()):
        print("(no steps: the build has no line tables)")
    for step in SHOWN:
        print(f"  {step:18}" + "".join(f"{steps.get(step, 0):10}" for _, steps in results.values()))
    print(f"{'all':20}" + "".join(f"{total:10}" for total, _ in results.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
