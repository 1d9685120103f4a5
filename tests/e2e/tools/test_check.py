"""`uroce check` on captures of real daemons' traffic: no faults are found, also where packets get lost."""

import json
import os
import re
import signal
import struct
import subprocess

from harness.case import E2eCase
from harness.lossy_wire import LossyUdp
from harness.process import Process, wait_until
from harness.programs import run_pair


class Check(E2eCase):
    def _captured(self, wire, interface, traffic):
        """Captures all packets at the router's interface meanwhile; returns the file, or skips the case."""
        file = os.path.join(self.logs, "traffic.pcapng")  # kept where a case fails
        dumpcap = Process([*wire.router.prefix(), "dumpcap", "-q", "-i", interface, "-B", "64", "-w", file, "-f", "udp port 4791"],
                          "dumpcap", self.logs)
        self.addCleanup(dumpcap.end)
        wait_until(lambda: "File: " in dumpcap.err() or dumpcap.ended(), 60, "dumpcap begins")
        traffic()
        dumpcap.signal(signal.SIGINT)
        dumpcap.expect_success(60)
        if lost := int(re.search(r"dropped on interface '\w+': \d+/(\d+)", dumpcap.err()).group(1)):
            self.skipTest(f"dumpcap lost {lost} packets: it wasn't given the processor")
        return file

    def _judged(self, interface, loss, *perftest):
        """Returns the report, the names of the faults, and the router's counters."""
        wire = type("Lossy", (LossyUdp,), {"loss": loss})(self)
        file = self._captured(wire, interface, lambda: run_pair(self, wire, *perftest))
        packets = wire.packets()
        wire.stop()
        answer = self.uroce("check", "--json", file)
        self.assertIn(answer.returncode, (0, 1), answer.stderr)
        report = json.loads(answer.stdout)
        findings = [finding for direction in report["directions"] for finding in direction["faults"]["first"]]
        for finding in findings:
            print(finding, flush=True)
        print(self.uroce("check", file).stdout, flush=True)
        self.assertEqual(report["unattributed"], 0)
        return report, {finding["fault"] for finding in findings}, packets

    def _check_lossy(self, interface, *perftest):
        """A receiver that gets no processor for longer than the sender's timer sends no NAK, which looks like a fault in the
        capture: so this case gets three tries on a busy machine."""
        for tries_left in (2, 1, 0):
            report, faults, (_all, lost) = self._judged(interface, 0.02, *perftest)
            if faults != {"nak_missing"} or tries_left == 0:
                break
        self.assertEqual(report["faults"], 0)
        resent = sum(direction["counters"]["requests_resent"] for direction in report["directions"])
        print(f"{lost} packets lost, {resent} requests sent again", flush=True)
        self.assertGreater(lost, 0)
        self.assertGreater(resent, 0)

    def test_writes_without_loss(self):
        report, _faults, _packets = self._judged("west", 0, "ib_write_bw", "-x", "1", "-n", "200", "-s", "16384", "-F")
        self.assertEqual(report["faults"], 0)

    def test_lossy_writes_before_the_loss(self):
        self._check_lossy("west", "ib_write_bw", "-x", "1", "-n", "500", "-s", "16384", "-F")

    def test_lossy_writes_behind_the_loss(self):
        self._check_lossy("east", "ib_write_bw", "-x", "1", "-n", "500", "-s", "16384", "-F")

    def test_lossy_reads(self):
        self._check_lossy("west", "ib_read_bw", "-x", "1", "-n", "500", "-s", "16384", "-F")

    def test_lossy_sends(self):
        self._check_lossy("east", "ib_send_bw", "-x", "1", "-n", "500", "-s", "16384", "-F")

    def test_a_capture_without_packets(self):
        """It isn't reported as a capture without faults."""
        file = os.path.join(self.folder, "empty.pcap")
        with open(file, "wb") as out:  # the header of a pcap file of Ethernet frames, with nothing behind it
            out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        answer = self.uroce("check", file)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("0 frames", answer.stdout)
        self.assertIn("nothing was judged: the capture has no RoCEv2 packets", answer.stdout)
        self.assertNotIn("nothing is wrong", answer.stdout)
        self.assertEqual(json.loads(self.uroce("check", "--json", file).stdout)["roce_frames"], 0)

    def test_a_file_that_is_empty(self):
        file = os.path.join(self.folder, "none.pcap")
        with open(file, "wb"):
            pass
        answer = self.uroce("check", file)
        self.assertEqual(answer.returncode, 2)
        self.assertIn("none.pcap: truncated", answer.stderr)

    def test_a_capture_through_a_pipe(self):
        daemon = self.wire("loopback").server.daemon
        pipe = f"'{self.tree.uroce}' capture --quiet --seconds 1 - | TMPDIR='{self.folder}' '{self.tree.uroce}' check --json "
        for name in ("-", "/dev/stdin"):
            with self.subTest(name):
                answer = subprocess.run(["bash", "-o", "pipefail", "-c", pipe + name], capture_output=True, text=True, timeout=60, check=False,
                                        env={**os.environ, "UROCE_SOCKET": daemon.socket})
                self.assertEqual((answer.returncode, answer.stderr), (0, ""))
                self.assertEqual(json.loads(answer.stdout)["faults"], 0)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("uroce-check-")], [])

    def test_a_pipe_that_brings_no_capture(self):
        answer = subprocess.run([self.tree.uroce, "check", "-"], input="nothing of the kind", capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(answer.returncode, 2)
        self.assertRegex(answer.stderr, r"\Auroce check: -: [^\n]*\n\Z")

    def test_a_missing_file(self):
        answer = self.uroce("check", os.path.join(self.folder, "none.pcap"))
        self.assertEqual(answer.returncode, 2)
        self.assertIn("none.pcap", answer.stderr)
