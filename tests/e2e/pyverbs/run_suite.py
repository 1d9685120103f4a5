"""Runs modules of rdma-core's Python suite in this process, against the daemon that UROCE_SOCKET names.

  run_suite.py --leave-out test_odp --report out.json   all generic modules but one
  run_suite.py --only test_cq.CQTest                    tests whose name begins so
"""

import argparse
import gzip
import importlib
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import unittest

SUITE = "/usr/share/doc/rdma-core/tests"
_OTHER_DEVICES = ("test_mlx5", "test_efa")
# Tests that race with the card and are retried: this one expects completions immediately after posting, and on a busy machine
# the daemon may not have run by then.
_RACES, _TRIES_MAX = ("test_cq.CQTest.test_resize_cq",), 5


def _unpack(suite, folder):
    """Debian compresses what is large in its documentation folders."""
    for name in sorted(os.listdir(suite)):
        source = os.path.join(suite, name)
        if name.endswith(".py"):
            shutil.copyfile(source, os.path.join(folder, name))
        elif name.endswith(".py.gz"):
            with gzip.open(source) as packed, open(os.path.join(folder, name[:-3]), "wb") as plain:
                shutil.copyfileobj(packed, plain)


def _keep(folder, left_out):
    """Removes the modules that aren't to be run: the suite's __init__ imports whatever lies beside it."""
    for name in sorted(os.listdir(folder)):
        module = name.removesuffix(".py")
        if name.startswith(_OTHER_DEVICES) or module in left_out:
            os.remove(os.path.join(folder, name))


class _Outcomes(unittest.TextTestResult):
    """Each test's outcome under its name without the package: test_cq.CQTest.test_resize_cq."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.outcomes = {}

    def _note(self, test, outcome, text=""):
        self.outcomes[test.id().split(".", 1)[1]] = [outcome, text]

    def addSuccess(self, test):
        super().addSuccess(test)
        self._note(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._note(test, "skipped", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._note(test, "failed", self._exc_info_to_string(err, test))

    def addError(self, test, err):
        if issubclass(err[0], MemoryError):  # huge pages are reserved, but others have them all
            return self.addSkip(test, "no huge page is free")
        super().addError(test, err)
        return self._note(test, "error", self._exc_info_to_string(err, test))


def _options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leave-out", action="append", default=[], metavar="MODULE")
    parser.add_argument("--only", default="", metavar="PREFIX")
    parser.add_argument("--ip", help="the device's address: the suite would look in sysfs for its network interface")
    parser.add_argument("--report", help="write the outcomes here, as JSON")
    return parser.parse_args()


def _supply_address(address):
    def add_argument(case, device, port, gid_index):
        case.args.append([device, port, gid_index, address, None])
    importlib.import_module("tests.base").RDMATestCase._get_ip_mac = add_argument


def _flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _flatten(item)
        else:
            yield item


def _run(package, prefix):
    """The outcomes of the tests whose name begins so."""
    loaded = unittest.defaultTestLoader.loadTestsFromModule(package)
    chosen = unittest.TestSuite(test for test in _flatten(loaded) if test.id().split(".", 1)[1].startswith(prefix))
    return unittest.TextTestRunner(verbosity=2, resultclass=_Outcomes).run(chosen).outcomes


def main():
    options = _options()
    multiprocessing.set_start_method("fork")  # as Python before 3.14 did: the suite hands its processes what can't be pickled
    with tempfile.TemporaryDirectory(prefix="uroce-pyverbs-") as parent:
        folder = os.path.join(parent, "tests")
        os.mkdir(folder)
        _unpack(SUITE, folder)
        _keep(folder, options.leave_out)
        sys.path[:0] = [parent, folder]  # the suite imports both tests.x and plain args_parser
        sys.dont_write_bytecode = True
        sys.argv[1:] = ["--dev", "uroce0", "--port", "1", "--gid", "1"]
        importlib.import_module("args_parser").parser.parse_args()
        package = importlib.import_module("tests")
        if options.ip:
            _supply_address(options.ip)
        outcomes = _run(package, options.only)
        for name in _RACES * (_TRIES_MAX - 1):
            if name in outcomes and outcomes[name][0] == "failed":
                outcomes.update(_run(package, name))
    if options.report:
        with open(options.report, "w", encoding="utf-8") as out:
            json.dump(outcomes, out, indent=1)
    return 1 if any(outcome in ("failed", "error") for outcome, _ in outcomes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
