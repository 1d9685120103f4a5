"""What programs and their daemons are doing when a case times out: the only trace that a rare hang leaves."""

import json
import os
import subprocess
import time

LOOK_SECONDS = 1
_COUNTERS = ("turns", "sleeps", "rx_frames", "tx_frames", "page_faults")
_OF_QUEUE_PAIRS = ("qpn", "state", "outstanding", "requests_sent", "requests_resent", "local_ack_timeout_err",
                   "rnr_nak_retry_err")


def threads(pid):
    """Each thread's name and the kernel function in which it waits."""
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as comm, \
                    open(f"/proc/{pid}/task/{task}/wchan", encoding="utf-8") as wchan:
                found.append(f"{comm.read().strip()} in {wchan.read().strip()}")
    except OSError:
        found.append("gone")
    return ", ".join(found)


def _status(daemon):
    try:
        told = subprocess.run([daemon.tree.uroce, "status", "--json"], capture_output=True, text=True, timeout=10,
                              check=False, env={**os.environ, "UROCE_SOCKET": daemon.socket},
                              stdin=subprocess.DEVNULL, **daemon.as_owner())
        return json.loads(told.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}


def _steps(before, after):
    """The increase of the workers' counters."""
    known = {old.get("worker"): old for old in before.get("workers", [])}
    return [{"worker": new.get("worker"), **{name: new.get(name, 0) - known[new.get("worker")].get(name, 0) for name in _COUNTERS}}
            for new in after.get("workers", []) if new.get("worker") in known]


def _queue_pairs(status):
    return [{name: qp[name] for name in _OF_QUEUE_PAIRS if name in qp}
            for session in status.get("sessions", []) for qp in session.get("qps", [])]


def standstill(processes, daemons):
    """One line of text."""
    before = [_status(daemon) for daemon in daemons]
    time.sleep(LOOK_SECONDS)
    words = [f"{process.name}: {'ended' if process.ended() else threads(process.pid)}" for process in processes]
    for daemon, old in zip(daemons, before):
        new = _status(daemon)
        words.append(f"{daemon.name}: in {LOOK_SECONDS} s its workers {_steps(old, new)}; queue pairs {_queue_pairs(new)}; "
                     f"{threads(daemon.process.pid)}")
    return "; ".join(words)
