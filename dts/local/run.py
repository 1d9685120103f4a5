#!/usr/bin/env python3
"""Runs the suites of dts/tests on this machine alone: the daemon on one end of a veth pair, Scapy on the other.

  sudo /usr/bin/python3 dts/local/run.py [WORD...]     the cases whose name has all the words
"""

import argparse
import ctypes
import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(HERE, "stand_ins"), os.path.dirname(HERE), HERE]

import mangle  # noqa: E402
import pcap_mode  # noqa: E402
from api import packet as wire  # noqa: E402  (the stand-ins are on the path now)
from api.test import TestFailed, TestSkipped  # noqa: E402
from framework.remote_session.dpdk_shell import DPDKShell  # noqa: E402

_CLONE_NEWNET = 0x40000000
_MTU = 4200
_CARD_IP = "10.99.0.1"
_CARD, _PEER, _PEER_MAC = "card", "peer", "02:00:00:00:00:02"
_PORT = f"net_af_packet0,iface={_CARD},blocksz=65536,framesz=16384,framecnt=1024,qdisc_bypass=1"


def join():
    """A network namespace of this process, ends with it, with the pair in it. No addresses: the card has its own. Returns
    the error if it can't be made, else nothing."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
        return os.strerror(ctypes.get_errno())
    for command in (f"ip link add {_CARD} mtu {_MTU} type veth peer name {_PEER} mtu {_MTU} address {_PEER_MAC}",
                    f"ip link set {_CARD} addrgenmode none", f"ip link set {_PEER} addrgenmode none",
                    f"ip link set {_CARD} up", f"ip link set {_PEER} up"):
        done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{command}: {done.stderr.strip()}"
    wire.open_wire(_PEER)
    return ""


def suites():
    """The suite classes, one of each module, as DTS finds them."""
    for file in sorted(os.listdir(os.path.join(ROOT, "dts", "tests"))):
        if file.startswith("TestSuite_") and file.endswith(".py"):
            name = file.removeprefix("TestSuite_").removesuffix(".py")
            module = importlib.import_module(f"tests.TestSuite_{name}")
            yield name, getattr(module, "Test" + "".join(word.capitalize() for word in name.split("_")))


def cases(suite):
    return [name for name, function in inspect.getmembers(suite, inspect.isfunction)
            if getattr(function, "is_func_test", False)]


class Run:
    def __init__(self, options):
        self.options = options
        self.results = []  # (name, outcome, seconds, reason)
        self.card = None  # in pcap mode

    def note(self, name, outcome, start, reason=""):
        seconds = time.monotonic() - start
        self.results.append((name, outcome, seconds, reason))
        print(f"  {outcome:8} {seconds:6.2f} s  {name}{': ' + reason if reason else ''}", flush=True)

    def suite(self, name, cls, config):
        chosen = [case for case in cases(cls) if all(word in f"{name}.{case}" for word in self.options.words)]
        if not chosen:
            return
        start = time.monotonic()
        suite = cls(cls.Config(**config))
        try:
            suite.set_up_suite()
        except Exception as error:  # pylint: disable=broad-except
            self.note(f"{name}.set_up_suite", "failed", start, f"{type(error).__name__}: {error}")
            return
        for case in chosen:
            self.case(f"{name}.{case}", suite, getattr(suite, case))
        suite.tear_down_suite()

    def case(self, name, suite, function):
        start = time.monotonic()
        outcome, reason = "passed", ""
        try:
            if self.card:
                self.card.begin_case()
            suite.set_up_test_case()
            try:
                function()
            finally:
                if self.card:
                    self.card.end_case()
                suite.tear_down_test_case()
        except TestSkipped as skipped:
            outcome, reason = "skipped", str(skipped)
        except TestFailed as failed:
            outcome, reason = "failed", str(failed)
        except Exception as error:  # pylint: disable=broad-except
            outcome, reason = "failed", f"{type(error).__name__}: {error}"
            traceback.print_exc()
        self.note(name, outcome, start, reason)

    def count(self, outcome):
        return sum(result[1] == outcome for result in self.results)


def write_report(results, path):
    """Writes the results as tests/runner/report.py reads them; reasons may contain any characters."""
    with open(path, "w", encoding="utf-8") as out:
        for result in results:
            print(json.dumps(dict(zip(("name", "outcome", "seconds", "reason"), result))), file=out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only cases whose name has all these words")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="the folder of the programs")
    parser.add_argument("--report", help="a file for the results, a JSON object a line, a case each")
    parser.add_argument("--mangle", choices=sorted(mangle.KINDS),
                        help="falsify the card's answers on their way, to check that the suites notice")
    parser.add_argument("--pcap", action="store_true", help="without a network, as where a namespace is refused")
    parser.add_argument("--arguments", default="", help="further flags of the daemon")
    options = parser.parse_args()
    if options.mangle:
        wire.mangle = mangle.KINDS[options.mangle]
    run = Run(options)
    config = {"uroced": os.path.join(options.build, "apps", "uroced"), "port": _PORT, "mtu": _MTU,
              "card_ip": _CARD_IP, "peer_mac": _PEER_MAC, "arguments": options.arguments}
    with tempfile.TemporaryDirectory(prefix="uroce-dts-") as folder:
        DPDKShell.log_path = os.path.join(folder, "uroced.log")
        refused = "--pcap was asked for" if options.pcap else join()
        if refused:
            print(f"no network namespace ({refused}): pcap mode, which leaves out what needs a running daemon", flush=True)
            run.card = pcap_mode.PcapCard(os.path.join(options.build, "apps", "replay", "uroce-replay"), folder, _CARD_IP)
            run.card.end_case()
            wire.exchange = run.card.exchange
        for name, cls in suites():
            DPDKShell.stand_in = None if getattr(cls, "needs_no_wire", False) else run.card
            run.suite(name, cls, config)
        if run.count("failed") and os.path.exists(DPDKShell.log_path):
            with open(DPDKShell.log_path, encoding="utf-8", errors="replace") as log:
                print("the daemon said:", *log.readlines()[-20:], sep="\n  ")
    if options.report:
        write_report(run.results, options.report)
    print(f"{run.count('passed')} passed, {run.count('failed')} failed, {run.count('skipped')} skipped")
    return 1 if run.count("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
