"""`uroce report`: the last minutes as text, as JSON and as a page, which a real browser shows."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

from harness.case import E2eCase
from harness.places import RUN_SUITE
from harness.process import wait_until
from harness.programs import start, start_pair

_SUITE = "/usr/share/doc/rdma-core/tests"
_EVIL = "<b id=evil>&\""  # 15 characters at most, as the kernel has it
_BROWSER = "chromium"
_IDLE_SECONDS = 10
_IDLE_SHARE_MAX = 0.004  # of a core


class Report(E2eCase):
    def report(self, daemon, *options):
        answer = self.uroce("report", *options, daemon=daemon)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def history(self, daemon):
        return json.loads(self.report(daemon, "--json"))["history"]

    def transfer(self, wire):
        """Starts traffic until the case ends; returns when some samples have counted bytes."""
        program = f"{self.folder}/{_EVIL}"
        os.symlink(shutil.which("ib_write_bw"), program)
        start_pair(self, wire, program, ["-x", "1", "-D", "120", "-s", "16384", "-F"])

        def moved():
            history = self.history(wire.client.daemon)
            sent = [sample["devices"][0][history["columns"]["device"].index("tx_bytes")] for sample in history["samples"]]
            return sum(after - before > 1 << 16 for before, after in zip(sent, sent[1:]))

        wait_until(lambda: moved() > 3, 60, "some samples")

    def test_samples_are_what_the_counters_say(self):
        wire = self.wire("veth", "--faults", "loss=0.02,seed=7")
        self.transfer(wire)
        history = self.history(wire.client.daemon)
        self.assertEqual(history["devices"], ["uroce0"])
        times = [sample["monotonic_ms"] for sample in history["samples"]]
        self.assertEqual(times, sorted(times))
        columns = history["columns"]["device"]
        rows = [dict(zip(columns, sample["devices"][0])) for sample in history["samples"]]
        for before, after in zip(rows, rows[1:]):
            for name in columns:
                self.assertGreaterEqual(after[name], before[name], name)
        counters = self.status(wire.client.daemon)["devices"][0]["hw_counters"]
        print(rows[-1], flush=True)
        for name in ("requests_sent", "requests_resent", "packet_seq_err"):
            self.assertGreater(rows[-1][name], 0, name)
            self.assertLessEqual(rows[-1][name], counters[name], name)
        self.assertEqual(history["samples"][-1]["daemon"][history["columns"]["daemon"].index("queue_pairs")], 1)

    def test_latencies_are_of_each_second(self):
        """No second's percentile exceeds the overall maximum, and operations that weren't used have no latencies."""
        wire = self.wire("veth")
        self.transfer(wire)
        history = self.history(wire.client.daemon)
        rows = [dict(zip(history["columns"]["latency"], sample["latencies"][0])) for sample in history["samples"]]
        longest = self.status(wire.client.daemon)["devices"][0]["latency"]
        print(rows[-1], longest, flush=True)
        self.assertTrue(any(row["write_p50_ns"] for row in rows))
        for row in rows:
            for name in ("write", "queued", "round_trip"):
                self.assertLessEqual(row[f"{name}_p50_ns"], row[f"{name}_p99_ns"], name)
                self.assertLessEqual(row[f"{name}_p99_ns"], max(1, longest[name]["max_ns"]), name)
            self.assertEqual(row["read_p99_ns"] + row["atomic_p99_ns"], 0)
        text = self.report(wire.client.daemon)
        self.assertRegex(text, r"uroce0 write p99, us +[\d.-]+")
        page = self.report(wire.client.daemon, "--html", "-")
        self.assertEqual(re.findall("How long it took: ([a-z ]+), us", page), ["write", "queued", "round trip"])

    def test_without_latencies_there_are_no_plots_of_them(self):
        wire = self.wire("veth", "--latency", "off")
        self.transfer(wire)
        for sample in self.history(wire.client.daemon)["samples"]:
            self.assertEqual(sum(sample["latencies"][0]), 0)
        page = self.report(wire.client.daemon, "--html", "-")
        self.assertIn("Bytes, B/s", page)
        self.assertNotIn("How long it took", page)

    def test_an_idle_daemon_takes_none(self):
        """Nor does it use the processor: less than 0.4 % of a core, as the kernel counts it."""
        daemon = self.wire("loopback").server.daemon

        def used():
            with open(f"/proc/{daemon.process.pid}/stat", encoding="ascii") as stat:
                return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
        before, begun = used(), time.monotonic()
        time.sleep(_IDLE_SECONDS)  # this is what is measured
        spent, seconds = used() - before, time.monotonic() - begun
        samples = len(self.history(daemon)["samples"])
        print(f"{spent:.3f} s of {seconds:.1f} s, {samples} samples", flush=True)
        self.assertLess(samples, _IDLE_SECONDS / 2)
        self.assertLess(spent, _IDLE_SHARE_MAX * seconds + 2 / os.sysconf("SC_CLK_TCK"))

    def test_text(self):
        wire = self.wire("veth", "--faults", "loss=0.02,seed=7")
        self.transfer(wire)
        text = self.report(wire.client.daemon)
        print(text, flush=True)
        for words in (r"ok +daemon: uroced", r"\d+ samples in \d+ s", r"uroce0 requests_resent +\d"):
            self.assertRegex(text, words)

    def test_the_configuration(self):
        with open(f"{self.folder}/x.toml", "w", encoding="utf-8") as file:
            file.write("direct = \"off\"  # <mine>\n")
        for option in (["--config", f"{self.folder}/x.toml"], [f"--config={os.path.relpath(self.folder)}/x.toml"]):
            wire = self.wire("loopback", *option)
            gathered = json.loads(self.report(wire.server.daemon, "--json"))
            self.assertIn("# <mine>", gathered["configuration"])
            self.assertIn(option[-1], gathered["command_line"])
            wire.stop()

    def test_a_page_without_a_daemon(self):
        answer = subprocess.run([self.tree.uroce, "report", "--html", "-"], env={**os.environ, "UROCE_SOCKET": f"{self.folder}/none"},
                                capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("PROBLEM", answer.stdout)
        self.assertIn("nothing has moved yet", answer.stdout)

    def test_a_page_that_cannot_be_written(self):
        answer = self.uroce("report", "--html", f"{self.folder}/none/x.html", daemon=self.wire("loopback").server.daemon)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("No such file or directory", answer.stderr)

    def test_a_browser_shows_the_page(self):
        if not shutil.which(_BROWSER):
            self.skipTest("Debian's chromium isn't installed")
        wire = self.wire("veth", "--faults", "loss=0.02,seed=7")
        if os.path.isdir(_SUITE):  # an error for the report's list
            start(self, wire.client, [sys.executable, RUN_SUITE, "--only", "test_atomic.AtomicTest.test_atomic_invalid_rkey"], "mistake").wait(60)
        self.transfer(wire)
        page = f"{self.folder}/report.html"
        self.report(wire.client.daemon, "--html", page)
        self.assertEqual(os.stat(page).st_mode & 0o777, 0o600, "it names other users' programs")
        with open(page, encoding="utf-8") as text:
            self.assertNotRegex(text.read(), r"https?://|<script|evil>")
        dom = self._browse(page, "--dump-dom")
        for words in ("<svg", "Bytes, B/s", "Sent again, and why", "How long it took: write, us", "requests resent", "10.77.2.2/24", "Limits of user", "--faults",
                      "&lt;b id=evil&gt;&amp;"):
            self.assertIn(words, dom)
        self.assertNotIn('id="evil"', dom)
        self.assertGreaterEqual(dom.count("<polyline"), 6)
        picture = f"{self.logs}/report.png"
        self._browse(page, f"--screenshot={picture}", "--window-size=1280,3200", "--hide-scrollbars")
        self.assertGreater(os.path.getsize(picture), 50_000)

    def _browse(self, page, *options):
        """Returns the browser's output; its console must be empty."""
        answer = subprocess.run([_BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={self.folder}/browser",
                                 *options, f"file://{page}"], capture_output=True, text=True, timeout=90, check=False, stdin=subprocess.DEVNULL,
                                env={**os.environ, "HOME": self.folder})
        if answer.returncode != 0 and re.search(r"namespace|sandbox|zygote|Operation not permitted", answer.stderr):
            self.skipTest(f"chromium doesn't run here: {answer.stderr.strip().splitlines()[-1][:200]}")
        self.assertEqual(answer.returncode, 0, answer.stderr[-2000:])
        self.assertNotIn("CONSOLE", answer.stderr)
        return answer.stdout
