"""The suites of dts/ elsewhere than on a veth pair: where a network namespace is refused, and found by upstream's loader."""

import os
import re
import subprocess
import textwrap

from harness.case import E2eCase
from harness.places import ROOT

_DTS = os.path.join(ROOT, "dts")
_NOBODY = 65534
_LOADER = """
    import importlib, inspect, pkgutil, tests
    from framework.test_suite import TestSuite
    for module in pkgutil.iter_modules(tests.__path__):
        if module.name.startswith("TestSuite_"):
            loaded = importlib.import_module(f"tests.{module.name}")
            name = "Test" + "".join(word.capitalize() for word in module.name.removeprefix("TestSuite_").split("_"))
            suite = getattr(loaded, name)
            assert issubclass(suite, TestSuite)
            cases = [case for _, case in inspect.getmembers(suite, inspect.isfunction) if hasattr(case, "is_func_test")]
            print(name, len(cases))
"""
_UPSTREAMS_OWN = """
    from framework.test_suite import TestSuite, func_test
    class TestHelloWorld(TestSuite):
        @func_test
        def hello_world(self):
            pass
"""


class DtsModes(E2eCase):
    def _run(self, *arguments, user=None):
        """(cases by outcome, its output)"""
        report = os.path.join(self.folder, "cases")
        command = ["/usr/bin/python3", "-B", os.path.join(_DTS, "local", "run.py"), "--build", self.tree.root]
        if user is None:
            command += ["--report", report]
        answer = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, check=False, user=user,
                                env={**os.environ, "TMPDIR": "/tmp"} if user else None)
        found = re.search(r"(\d+) passed, (\d+) failed, (\d+) skipped$", answer.stdout.strip())
        self.assertTrue(found, answer.stdout + answer.stderr)
        return [int(number) for number in found.groups()], answer.stdout

    def test_pcap_mode(self):
        (passed, failed, skipped), output = self._run("--pcap", "roce_rc_send.")
        self.assertEqual(failed, 0, output)
        self.assertGreaterEqual(passed, 3, output)
        (passed, failed, skipped), output = self._run("--pcap", "roce_connectivity")
        self.assertEqual(failed, 0, output)
        self.assertGreaterEqual(passed, 3, output)
        self.assertGreaterEqual(skipped, 2, output)  # ARP, ICMP
        self.assertIn("ARP and ICMP aren't answered", output)

    def test_pcap_mode_bites(self):
        (_, failed, _), output = self._run("--pcap", "--mangle", "icrc", "roce_rc_send.")
        self.assertGreaterEqual(failed, 3, output)

    def test_an_ordinary_user_is_refused_a_namespace_and_gets_pcap_mode(self):
        program = os.path.join(self.tree.root, "apps", "uroced")
        if os.getuid() or subprocess.run(["test", "-x", program], user=_NOBODY, check=False).returncode:
            self.skipTest("no other user here can run what was built")
        (passed, failed, _), output = self._run("roce_rc_send.", user=_NOBODY)
        self.assertIn("no network namespace (Operation not permitted): pcap mode", output)
        self.assertEqual(failed, 0, output)
        self.assertGreaterEqual(passed, 3, output)

    def test_upstreams_loader_finds_our_suites_beside_its_own(self):
        """Upstream's `tests` has no __init__.py either, and it takes each module of the package's path."""
        theirs = os.path.join(self.folder, "upstream")
        os.makedirs(os.path.join(theirs, "tests"))
        for place, text in (("tests/TestSuite_hello_world.py", _UPSTREAMS_OWN), ("loader.py", _LOADER)):
            with open(os.path.join(theirs, place), "w", encoding="utf-8") as file:
                file.write(textwrap.dedent(text))
        path = os.pathsep.join([_DTS, os.path.join(_DTS, "local", "stand_ins")])
        answer = subprocess.run(["/usr/bin/python3", "-B", os.path.join(theirs, "loader.py")], capture_output=True, text=True,
                                timeout=60, check=False, cwd=theirs, env={**os.environ, "PYTHONPATH": path})
        self.assertEqual(answer.returncode, 0, answer.stderr)
        found = dict(line.split() for line in answer.stdout.splitlines())
        ours = {name for name in os.listdir(os.path.join(_DTS, "tests")) if name.startswith("TestSuite_")}
        self.assertEqual(len(found), len(ours) + 1, found)
        self.assertIn("TestHelloWorld", found)
        self.assertGreaterEqual(sum(map(int, found.values())), 120, found)
