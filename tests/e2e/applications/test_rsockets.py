"""TCP programs with librdmacm's library preloaded that turns their sockets into rsockets. docs/programs.md says which
calls it supports in which release: of Debian 12 there are iperf, and curl by way of a proxy; redis works with --long, by sid's library."""

import os

from harness.application import ADDRESS, ApplicationCase
from harness.debian_root import DebianRoot
from harness.process import Process, wait_until
from harness.programs import listens
from harness.rdmacm import listens as card_listens
from harness.wires import free_tcp_port

_PRELOADED = f"/usr/lib/{os.uname().machine}-linux-gnu/rsocket/librspreload.so"
_SECONDS_MAX = 60
_BYTES = 20_000_000


class Rsockets(ApplicationCase):
    def setUp(self):
        super().setUp()
        if not os.path.exists(_PRELOADED):
            self.skipTest(f"no {_PRELOADED}")

    def _start(self, end, name, *command):
        return self.start(end, name, *command, environment={"LD_PRELOAD": _PRELOADED})

    def _server(self, end, port, *command):
        server = self._start(end, f"{command[0]}-server", *command)
        wait_until(lambda: server.ended() or card_listens(self, end, port), 30, f"{command[0]} listening")
        return server

    def test_iperf(self):
        self.need("iperf")
        end, port = self.card(), free_tcp_port()
        self._server(end, port, "iperf", "-s", "-B", ADDRESS, "-p", port)
        client = self._start(end, "iperf", "iperf", "-c", ADDRESS, "-p", port, "-n", _BYTES)
        client.expect_success(_SECONDS_MAX)
        self.expect_sent(_BYTES, end.daemon)

    def test_curl(self):
        """curl and its proxy talk by rsockets, the proxy and the web server by TCP."""
        self.need("curl", "microsocks")
        content, got = os.urandom(_BYTES), os.path.join(self.folder, "got")
        with open(os.path.join(self.folder, "served"), "wb") as file:
            file.write(content)
        end, port, web_port = self.card(), free_tcp_port(), free_tcp_port()
        web = self.start(end, "web", "/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", web_port)
        wait_until(lambda: web.ended() or listens(end.pid, web_port), 30, "the web server listening")
        self._server(end, port, "microsocks", "-i", ADDRESS, "-p", port)
        client = self._start(end, "curl", "curl", "--silent", "--show-error", "--fail", "--output", got, "--socks5",
                             f"{ADDRESS}:{port}", f"http://127.0.0.1:{web_port}/served")
        client.expect_success(_SECONDS_MAX)
        with open(got, "rb") as file:
            self.assertTrue(file.read() == content, "curl got something else than what is served")
        self.expect_sent(_BYTES, end.daemon)


class RsocketsOfSid(ApplicationCase):
    """rdma-core 65's rsockets have epoll, which redis cannot do without. Server and client are sid's, the daemon is outside."""

    seconds_max = 600  # the first one makes the root
    user = ()  # entering the root takes root
    commands = 300

    def setUp(self):
        super().setUp()
        if not os.environ.get("UROCE_E2E_LONG"):
            self.skipTest("only with --long: packages of sid, which change")
        self.root = DebianRoot(self, "sid", ("librdmacm1t64", "rdmacm-utils", "redis-server", "redis-tools"), "sid-rsockets")

    def _start(self, end, name, *command, **options):
        process = Process([*end.prefix, *self.root.prefix(end.daemon), f"LD_PRELOAD={_PRELOADED}", *command],
                          f"{self.next_number()}-{name}", self.logs, **options)
        self.addCleanup(process.end)
        return process

    def _asked(self, end, port, typed, *command):
        """The output of redis-cli for these arguments and this input."""
        path = os.path.join(self.folder, "typed")
        with open(path, "wb") as file:
            file.write(typed)
        with open(path, "rb") as file:
            client = self._start(end, "redis-cli", "redis-cli", "-h", ADDRESS, "-p", port, *command, stdin=file)
        return client.expect_success(_SECONDS_MAX)

    def test_redis(self):
        end, port = self.card(), free_tcp_port()
        server = self._start(end, "redis-server", "redis-server", "--bind", ADDRESS, "--port", port, "--save", "",
                             "--protected-mode", "no", "--dir", "/tmp")
        wait_until(lambda: server.ended() or card_listens(self, end, port), 30, "redis listening")
        large = os.urandom(500_000).hex()
        self.assertEqual(self._asked(end, port, large.encode(), "-x", "set", "large").strip(), "OK")
        self.assertTrue(self._asked(end, port, b"", "get", "large").strip() == large, "another value than was set")
        typed = "".join(f"set key{i} value{i * i}\nget key{i}\n" for i in range(self.commands))
        answers = self._asked(end, port, typed.encode()).split()
        self.assertEqual(answers, [word for i in range(self.commands) for word in ("OK", f"value{i * i}")])
        self.expect_sent(2 * len(large), end.daemon)
