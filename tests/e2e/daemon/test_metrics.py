"""`uroced --metrics`: read by Debian's own Prometheus, promtool and node_exporter."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

from harness.case import E2eCase
from harness.daemon import Daemon
from harness.process import Process, wait_until
from harness.programs import run_pair, start_pair
from harness.wires import Endpoint, free_tcp_port

# No rates in it, so no waiting for a second scrape.
_CONFIGURATION = """
scrape_configs:
  - job_name: uroce
    scrape_interval: 1s
    static_configs: [{targets: ["127.0.0.1:%d"]}]
"""
# Of node_exporter's page and of ours.
_SHARED = ("port_data_received_bytes_total", "port_data_transmitted_bytes_total", "port_packets_received_total",
           "port_packets_transmitted_total", "port_errors_received_total", "port_discards_transmitted_total", "state_id",
           "physical_state_id", "rate_bytes_per_second")
_STOPPED_SECONDS, _STOPS_MAX, _SEEN_SECONDS_MAX = 1, 3, 10


def _page(url, accept="text/plain"):
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=30) as page:
        return page.read().decode()


class Metrics(E2eCase):
    def setUp(self):
        super().setUp()
        self.port = free_tcp_port()
        self.url = f"http://127.0.0.1:{self.port}/metrics"

    def daemon(self, where, direct="off", latency="on"):
        daemon = Daemon(self.tree, self.folder, self.logs, "uroced", "loopback", "10.77.0.1/24",
                        ["--mtu", 4200, "--direct", direct, "--latency", latency, "--metrics", where, "--seccomp", "kill"])
        self.addCleanup(daemon.end)
        return daemon

    def wire_of(self, daemon):
        end = Endpoint(daemon, "10.77.0.1", "127.0.0.1")
        return type("Wire", (), {"server": end, "client": end, "expect_running": daemon.expect_running})()

    def run_on(self, daemon, program, *arguments):
        run_pair(self, self.wire_of(daemon), program, *arguments)

    def traffic(self, daemon):
        self.run_on(daemon, "ib_write_bw", "-x", "1", "-n", "200", "-s", "16384", "-F")

    def value(self, page, name):
        found = re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE)
        self.assertIsNotNone(found, name)
        return float(found.group(1))

    def test_promtool_and_prometheus(self):
        """promtool finds no faults, and the values that a scrape stores are those of `uroce status`."""
        self.need("prometheus")
        daemon = self.daemon(f"127.0.0.1:{self.port}")
        self.traffic(daemon)
        checked = subprocess.run(["promtool", "check", "metrics"], input=_page(self.url), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.assertEqual(checked.stdout + checked.stderr, "")

        web = free_tcp_port()
        configuration = f"{self.folder}/prometheus.yml"
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(_CONFIGURATION % self.port)
        prometheus = Process(["prometheus", f"--config.file={configuration}", f"--storage.tsdb.path={self.folder}/tsdb",
                              f"--web.listen-address=127.0.0.1:{web}"], "prometheus", self.logs)
        self.addCleanup(prometheus.end)

        def asked(expression):
            try:
                answer = json.loads(_page(f"http://127.0.0.1:{web}/api/v1/query?query={expression}"))
            except OSError:
                return []
            return [float(result["value"][1]) for result in answer["data"]["result"]]

        wait_until(lambda: prometheus.ended() or asked("up") == [1], 60, "Prometheus has scraped")
        device = self.status(daemon)["devices"][0]
        self.assertEqual(asked("node_infiniband_port_packets_transmitted_total"), [device["tx_frames"]])
        self.assertEqual(asked("uroce_requests_sent_total"), [device["hw_counters"]["requests_sent"]])
        self.assertGreaterEqual(device["hw_counters"]["requests_sent"], 800)
        self.assertEqual(asked("scrape_samples_scraped>100")[0], asked("scrape_samples_post_metric_relabeling")[0])
        daemon.stop()  # under --seccomp kill: no call of the server's is missing from the list

    def test_same_numbers_as_node_exporter(self):
        """Its infiniband collector reads our /sys tree; names, labels and values are the same."""
        self.need("prometheus-node-exporter")
        daemon = self.daemon(f"127.0.0.1:{self.port}")
        self.traffic(daemon)
        tree = f"{self.folder}/tree"
        keeper = Process([self.tree.uroce, "tree", tree], "tree", self.logs, {"UROCE_SOCKET": daemon.socket})
        self.addCleanup(keeper.end)
        wait_until(lambda: keeper.ended() or os.path.exists(f"{tree}/sys/class/infiniband/uroce0"), 30, "the tree")
        port = free_tcp_port()
        exporter = Process(["prometheus-node-exporter", "--collector.disable-defaults", "--collector.infiniband", f"--path.sysfs={tree}/sys",
                            f"--web.listen-address=127.0.0.1:{port}"], "exporter", self.logs)
        self.addCleanup(exporter.end)
        wait_until(lambda: exporter.ended() or "Listening on" in exporter.err(), 30, "node_exporter")
        ours = _page(self.url)
        theirs = _page(f"http://127.0.0.1:{port}/metrics")
        for name in _SHARED:
            with self.subTest(name):
                line = re.search(rf"^node_infiniband_{name}{{device=\"uroce0\",port=\"1\"}} (\S+)$", theirs, re.MULTILINE)
                self.assertIsNotNone(line, theirs)
                value = self.value(ours, f"node_infiniband_{name}")
                # sysfs counts in words of four bytes.
                self.assertEqual(value - value % 4 if "_bytes" in name else value, float(line.group(1)))

    def test_latency(self):
        """Message latencies: the status report's percentiles, and the same samples on the page, with frames and without."""
        for direct in ("off", "on"):
            with self.subTest(direct=direct):
                daemon = self.daemon(f"127.0.0.1:{self.port}", direct)
                self.run_on(daemon, "ib_write_lat", "-x", "1", "-n", "200", "-s", "8", "-F")
                self.run_on(daemon, "ib_read_lat", "-x", "1", "-n", "200", "-s", "8", "-F")
                device = self.status(daemon)["devices"][0]
                page = _page(self.url)
                self.assertEqual(device["hw_counters"]["direct_messages"] > 0, direct == "on")
                print(direct, json.dumps(device["latency"]), flush=True)
                for operation in ("write", "read"):  # one message at a time is outstanding, so each is timed
                    times = device["latency"][operation]
                    self.assertGreaterEqual(times["count"], 200)
                    self.assertLess(0, times["p50_ns"])
                    self.assertLessEqual(times["p50_ns"], times["p99_ns"])
                    self.assertLessEqual(times["p99_ns"], times["p99_9_ns"])
                    self.assertLessEqual(times["p99_9_ns"], times["max_ns"])
                    self.assertIn(f'uroce_operation_seconds_count{{device="uroce0",port="1",operation="{operation}"}} {times["count"]}\n', page)
                self.assertEqual("round_trip" in device["latency"], direct == "off", "without frames there is no round trip")
                daemon.stop()

    def test_latency_of_a_late_worker(self):
        """The latency includes the wait for a worker that doesn't run: it counts from the post, not from when the worker sees it."""
        daemon = self.daemon(f"127.0.0.1:{self.port}", "on")
        # Until the case ends.
        start_pair(self, self.wire_of(daemon), "ib_write_lat", ["-x", "1", "-D", "120", "-s", "8", "-F"])
        wait_until(lambda: self.bytes_sent(daemon) > 1 << 10, 30, "traffic")
        self.addCleanup(daemon.process.signal, signal.SIGCONT)

        def waited():
            times = self.status(daemon)["devices"][0]["latency"]
            return min(times[of]["max_ns"] for of in ("write", "queued")) > _STOPPED_SECONDS / 2 * 1e9

        for _ in range(_STOPS_MAX):  # on a busy machine the program whose turn it is may get no processor while the worker is stopped
            daemon.process.signal(signal.SIGSTOP)
            time.sleep(_STOPPED_SECONDS)  # the measured case: one of the two programs posts right after the stop
            daemon.process.signal(signal.SIGCONT)
            seen_until = time.monotonic() + _SEEN_SECONDS_MAX
            while time.monotonic() < seen_until:
                if waited():
                    return
        self.fail(f"no WRITE waited for the worker, which was stopped {_STOPS_MAX} times")

    def test_latency_switched_off(self):
        daemon = self.daemon(f"127.0.0.1:{self.port}", latency="off")
        self.traffic(daemon)
        self.assertEqual(self.status(daemon)["devices"][0]["latency"], {})
        self.assertEqual(self.value(_page(self.url), "uroce_round_trip_seconds_count"), 0)

    def test_unix_socket(self):
        path = f"{self.folder}/metrics.sock"
        daemon = self.daemon(f"unix:{path}")
        with socket.socket(socket.AF_UNIX) as scraper:
            scraper.connect(path)
            scraper.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            page = b"".join(iter(lambda: scraper.recv(65536), b"")).decode()
        self.assertIn("\nuroce_sessions 0\n", page)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o660)
        daemon.stop()
        self.assertFalse(os.path.exists(path))

    def test_silent_scrapers_hold_nobody_up(self):
        """Connections that send nothing, more than are accepted: programs are served meanwhile."""
        daemon = self.daemon(f"127.0.0.1:{self.port}")
        idle = [socket.create_connection(("127.0.0.1", self.port), timeout=10) for _ in range(100)]
        for end in idle:
            self.addCleanup(end.close)
        self.traffic(daemon)
        self.assertEqual(len(self.status(daemon)["devices"]), 1)
        daemon.stop()

    def test_queue_pairs_on_request(self):
        daemon = self.daemon(f"127.0.0.1:{self.port}")
        self.assertNotIn("uroce_qp_", _page(self.url))
        page = _page(f"{self.url}?queue_pairs=1", "application/openmetrics-text;version=1.0.0")
        self.assertTrue(page.endswith("# EOF\n"))
        end = Endpoint(daemon, "10.77.0.1", "127.0.0.1")
        server, client = start_pair(self, type("Wire", (), {"server": end, "client": end})(), "ib_write_bw", ("-x", "1", "-D", "6", "-s", "16384", "-F"))
        timed = re.compile(r"^uroce_qp_operation_seconds{device=\"uroce0\",qpn=\"\d+\",command=\"ib_write_bw\",operation=\"write\",quantile=\"0.99\"} [\d.e-]+$",
                           re.MULTILINE)
        while not client.ended() and not timed.search(page):  # until a scrape fell into the transfer
            page = _page(f"{self.url}?queue_pairs=1")
        self.assertRegex(page, timed)
        self.assertIn("\nuroce_qp_round_trip_seconds_count{", page)
        if shutil.which("promtool"):
            checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))
        client.expect_success(60)
        server.expect_success(60)
        daemon.expect_running()

    def test_an_address_that_is_taken(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            where = f"127.0.0.1:{holder.getsockname()[1]}"
            answer = subprocess.run([*self.tree.uroced, "--port", "loopback", "--ip", "10.77.0.1/24", "--socket",
                                     f"{self.folder}/taken.sock", "--metrics", where], capture_output=True, text=True, timeout=30, check=False)
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn(f"--metrics {where}: can't be listened on: Address already in use", answer.stderr)
