"""`uroce capture`: what a daemon sends and receives, read by tshark, and counted by `uroce check`."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

from harness.case import E2eCase
from harness.places import RUN_SUITE
from harness.process import Process, wait_until
from harness.programs import run_pair, start, start_pair

_NOBODY = 65534
_SUITE = "/usr/share/doc/rdma-core/tests"
_FAULTS = "loss=0.02,seed=7"
# Every frame that an end sends is in its own daemon's capture, whether or not the other end received it.
_COUNTED = ("requests_sent", "requests_resent", "responses_sent", "acks_sent", "naks_sent", "rnr_naks_sent")


class Capture(E2eCase):
    def setUp(self):
        super().setUp()
        self._files = {}

    def begin(self, daemon, *options):
        file = f"{self.folder}/{daemon.name}.pcapng"
        capture = Process([self.tree.uroce, "capture", file, *options], f"capture-{daemon.name}", self.logs, {"UROCE_SOCKET": daemon.socket})
        self.addCleanup(capture.end)
        wait_until(lambda: "until Ctrl-C" in capture.err() or capture.ended(), 60, "the capture begins")
        self._files[capture] = file
        return capture

    def finish(self, capture):
        """The file; the test fails if something was missed."""
        capture.signal(signal.SIGINT)
        capture.expect_success(30)
        self.assertIn(" 0 missed", capture.err())
        return self._files[capture]

    def tshark(self, file, *arguments):
        answer = subprocess.run(["tshark", "-r", file, "--disable-protocol", "rpcordma", *arguments], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout.splitlines()

    def test_comments_in_tshark(self):
        wire = self.wire("veth", "--faults", _FAULTS)
        capture = self.begin(wire.client.daemon)
        run_pair(self, wire, "ib_write_bw", "-x", "1", "-n", "300", "-s", "16384", "-F")
        file = self.finish(capture)
        lines = self.tshark(file, "-T", "fields", "-e", "frame.number", "-e", "infiniband.bth.opcode", "-e", "frame.comment")
        text = "\n".join(lines)
        print(text[:2000], flush=True)
        for words in (r"QP \d+, work request \d+: sent$", r"work request \d+: sent again", "\treceived$"):
            self.assertRegex(text, re.compile(words, re.MULTILINE))
        out = [line for line in lines if "work request" in line]
        self.assertGreater(len(out), 300 * 4)

    def test_drops(self):
        """Dropped packets carry the reason, also if they were dropped after the first checks."""
        wire = self.wire("veth", "--faults", "corrupt=0.05,seed=7")
        capture = self.begin(wire.server.daemon, "--drops", "--json")
        run_pair(self, wire, "ib_write_bw", "-x", "1", "-n", "300", "-s", "16384", "-F")
        comments = self.tshark(self.finish(capture), "-T", "fields", "-e", "frame.comment")
        said = json.loads(capture.out())
        self.assertEqual((said["packets"], said["missed"], said["failed_completions"]), (len(comments), 0, 0))
        drops = {}
        for worker in self.status(wire.server.daemon)["workers"]:
            drops.update(worker["drops"])
        print(drops, flush=True)
        self.assertGreater(drops["bad_icrc"], 0)
        drops.pop("not_roce", None)  # neighbour discovery, also before the capture began
        for reason, count in drops.items():
            self.assertEqual(sum(f"dropped, {reason}:" in comment for comment in comments), count, reason)

    def _counted_alike(self, *perftest):
        """Each end's counters are what its capture says, field by field."""
        wire = self.wire("veth", "--faults", _FAULTS)
        captures = [self.begin(end.daemon) for end in (wire.server, wire.client)]
        run_pair(self, wire, *perftest)
        again = 0
        for end, capture in zip((wire.server, wire.client), captures):
            file = self.finish(capture)
            answer = self.uroce("check", "--json", file)
            if answer.returncode != 0:
                shutil.copy(file, self.logs)  # to be looked at
            report = json.loads(answer.stdout)
            sent = [direction["counters"] for direction in report["directions"] if direction["from"] == end.address]
            counters = self.status(end.daemon)["devices"][0]["hw_counters"]
            named = {name: sum(direction[name] for direction in sent) for name in _COUNTED}
            print(end.address, named, f"faults {report['faults']}", flush=True)
            self.assertEqual(named, {name: counters[name] for name in _COUNTED})
            self.assertEqual(sum(direction["bytes"] for direction in sent), counters["bytes_sent"])
            given = [direction["counters"] for direction in report["directions"] if direction["from"] != end.address]
            self.assertEqual(sum(direction["sequence_naks_sent"] for direction in given), counters["packet_seq_err"])
            self.assertEqual(report["faults"], 0, [direction["faults"] for direction in report["directions"]])
            again += named["requests_resent"]
        self.assertGreater(again, 0)

    def test_writes_are_counted_alike(self):
        self._counted_alike("ib_write_bw", "-x", "1", "-n", "500", "-s", "16384", "-F")

    def test_reads_are_counted_alike(self):
        self._counted_alike("ib_read_bw", "-x", "1", "-n", "500", "-s", "16384", "-F")

    def test_packets_have_icrcs_where_the_wire_has_none(self):
        """shm ports don't compute ICRCs, but every captured packet has the right one."""
        wire = self.wire("shm")
        captures = [self.begin(end.daemon) for end in (wire.server, wire.client)]
        for tool in ("ib_write_bw", "ib_read_bw"):
            run_pair(self, wire, tool, "-x", "1", "-n", "200", "-s", "16384", "-F")
        for capture in captures:
            answer = self.uroce("check", "--json", self.finish(capture))
            self.assertEqual(answer.returncode, 0, answer.stdout)
            report = json.loads(answer.stdout)
            print(report, flush=True)
            self.assertEqual(report["faults"], 0)
            self.assertEqual(len(report["directions"]), 4)

    def test_a_loopback_shows_each_packet_once(self):
        wire = self.wire("loopback")
        capture = self.begin(wire.server.daemon)
        run_pair(self, wire, "ib_write_bw", "-x", "1", "-n", "100", "-s", "16384", "-F")
        file = self.finish(capture)
        answer = self.uroce("check", "--json", file)
        self.assertEqual(answer.returncode, 0, answer.stdout)
        sent = sum(direction["counters"]["requests_sent"] for direction in json.loads(answer.stdout)["directions"])
        self.assertGreater(sent, 0)  # during a capture, messages within a daemon are sent as frames
        self.assertEqual(sent, self.status(wire.server.daemon)["devices"][0]["hw_counters"]["requests_sent"])

    def _of_the_failure(self, capture, words):
        """The lines of the capture's packets, and the one whose comment names the failed work request."""
        self.assertRegex(capture.err(), words)
        lines = self.tshark(self.finish(capture), "-T", "fields", "-e", "frame.number", "-e", "infiniband.bth.opcode", "-e", "frame.comment")
        print("\n".join(lines), flush=True)
        named = [line for line in lines if re.search(words, line)]
        self.assertEqual(len(named), 1, lines)
        return lines, named[0]

    def test_on_error_of_a_peer_that_is_gone(self):
        """The packets before the failure are there, including the last retransmissions, and one names the failed work request."""
        wire = self.wire("veth")
        # After the retransmission of everything outstanding, new packets may fill the window: 128 messages of four at most.
        packets = 600
        capture = self.begin(wire.client.daemon, "--on-error", packets)
        server, client = start_pair(self, wire, "ib_write_bw", ["-x", "1", "-D", "60", "-s", "16384", "-F", "-u", "8"])
        counters = lambda: self.status(wire.client.daemon)["devices"][0]["hw_counters"]
        wait_until(lambda: client.ended() or counters()["requests_sent"] > 1000, 60, "the program sends")
        wire.server.daemon.end()
        client.expect_failure(60)
        server.kill()
        wait_until(lambda: "failed with" in capture.err(), 60, "the capture sees the failure")
        lines, named = self._of_the_failure(capture, r"QP \d+: RDMA WRITE with wr_id 0x\w+ failed with transport retry counter exceeded")
        self.assertLessEqual(len(lines), 2 * packets)
        # The work requests flushed after it aren't errors of their own.
        self.assertIn("failed completions: 1\n", capture.err())
        self.assertRegex(named, r"work request \d+: sent")
        self.assertIn("sent again", "\n".join(lines))

    def test_on_error_of_a_wrong_key(self):
        if not os.path.isdir(_SUITE):
            self.skipTest("Debian's python3-pyverbs isn't installed, or was installed without its documentation")
        wire = self.wire("loopback")
        capture = self.begin(wire.server.daemon, "--on-error", 5, "--errors", 1)
        run_pair(self, wire, "ib_write_bw", "-x", "1", "-n", "100", "-s", "16384", "-F")
        program = start(self, wire.server, [sys.executable, RUN_SUITE, "--only", "test_atomic.AtomicTest.test_atomic_invalid_rkey"], "mistake")
        program.expect_success(60)
        capture.expect_success(30)  # since it waits for one error only
        lines, named = self._of_the_failure(capture, r"failed with remote access error: the peer answered NAK: remote access error \(PSN")
        self.assertLessEqual(len(lines), 10)
        self.assertNotIn("RDMA_WRITE", named)
        # The request that was refused is there: a compare and swap, or a fetch and add.
        self.assertTrue(any(line.split("\t")[1] in ("19", "20") for line in lines), lines)

    def test_on_error_without_one(self):
        wire = self.wire("loopback")
        capture = self.begin(wire.server.daemon, "--on-error", 5)
        run_pair(self, wire, "ib_write_bw", "-x", "1", "-n", "100", "-s", "16384", "-F")
        self.assertEqual(self.tshark(self.finish(capture)), [])
        self.assertIn(" 0 packets, 0 missed because the buffer was full, failed completions: 0", capture.err())

    def test_standard_output_is_for_one_thing(self):
        answer = self.uroce("capture", "-", "--json", daemon=self.wire("loopback").server.daemon)
        self.assertEqual((answer.returncode, answer.stdout), (1, ""))
        self.assertIn("--json wants standard output for itself: name a file", answer.stderr)

    def test_one_at_a_time_and_again(self):
        daemon = self.wire("loopback").server.daemon
        first = self.begin(daemon)
        refused = self.uroce("capture", f"{self.folder}/x.pcapng", daemon=daemon)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("somebody else captures already", refused.stderr)
        first.kill()  # closing the connection ends the capture
        self._files.clear()

        def begins():
            return self.uroce("capture", f"{self.folder}/y.pcapng", "--seconds", "0.1", daemon=daemon).returncode == 0
        wait_until(begins, 60, "another capture may begin")

    def test_not_for_everybody(self):
        daemon = self.wire("loopback").server.daemon
        os.chmod(self.folder, 0o777)
        answer = self.uroce("capture", f"{self.folder}/x.pcapng", daemon=daemon, user=_NOBODY, group=_NOBODY, extra_groups=[], cwd="/")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("only root and the daemon's own user may start one", answer.stderr)

    def test_a_daemon_that_ends(self):
        wire = self.wire("loopback")
        capture = self.begin(wire.server.daemon)
        wire.stop()
        capture.expect_success(30)
        self.assertIn("the daemon has ended", capture.err())
