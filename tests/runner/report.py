"""The outcome of each case, and how it is printed."""

import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass

OUTCOMES = ("passed", "failed", "skipped")


@dataclass
class Case:
    name: str
    outcome: str  # one of OUTCOMES
    seconds: float = 0.0
    reason: str = ""  # why it failed (its first line) or was skipped
    log: str = ""  # where the whole output is


def write_cases(cases, path):
    """Hands cases to the process that started this one: a JSON object a line."""
    with open(path, "w", encoding="utf-8") as out:
        for case in cases:
            out.write(json.dumps(asdict(case)) + "\n")


def read_cases(path):
    with open(path, encoding="utf-8") as lines:
        return [Case(**json.loads(line)) for line in lines]


def close_part(cases, path):
    """Writes the cases to `path` or, without one, prints a summary. Returns the exit code."""
    if path:
        write_cases(cases, path)
    else:
        print(counts(cases))
    return 1 if any(case.outcome == "failed" for case in cases) else 0


def counts(cases):
    count = Counter(case.outcome for case in cases)
    return ", ".join(f"{count[outcome]} {outcome}" for outcome in OUTCOMES)


def print_case(part, case):
    """Shows a case that needs to be seen; passed ones only count."""
    if case.outcome == "failed":
        where = f"\n       log: {case.log}" if case.log else ""
        print(f"  FAIL {part}: {case.name}: {case.reason or 'see the log'}{where}", flush=True)


def print_closing(parts):
    """`parts` is a list of (name, cases). Returns the exit code."""
    cases = [case for _, part_cases in parts for case in part_cases]
    skipped = [(name, case) for name, part_cases in parts for case in part_cases
               if case.outcome == "skipped"]
    if skipped:
        print("Skipped:")
        for (name, reason), number in Counter(
                (f"{part}: {case.name}", case.reason) for part, case in skipped).items():
            print(f"  {name}{f' ({number} times)' if number > 1 else ''}: {reason or 'no reason given'}")
    failed = [(name, case) for name, part_cases in parts for case in part_cases
              if case.outcome == "failed"]
    if failed:
        print("Failed:")
        for name, case in failed:
            print_case(name, case)
    print(counts(cases))
    sys.stdout.flush()
    return 1 if failed or not cases else 0
