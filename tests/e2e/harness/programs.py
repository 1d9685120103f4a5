"""Pairs of programs: a server, and a client that starts when the server listens."""

from dataclasses import dataclass

from .process import Process, StillRuns, wait_until
from .standstill import standstill
from .wires import free_tcp_port

_LISTEN = "0A"
LISTEN_SECONDS_MAX = 30
PAIR_SECONDS_MAX = 90
_QPERF_TRIES_MAX = 5


def listens(pid, port):
    """Whether somebody listens on this TCP port in the network namespace of `pid` (0: ours)."""
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid or 'self'}/net/{table}", encoding="ascii") as lines:
            if names_listener(lines.read(), port):
                return True
    return False


def names_listener(table, port):
    """Whether somebody listens on this port according to the text of a /proc/net/tcp or tcp6."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if fields[3] == _LISTEN and int(fields[1].split(":")[1], 16) == port:
            return True
    return False


def start(setting, endpoint, command, name, environment=None):
    process = Process([*endpoint.prefix, *command], name, setting.logs,
                      {**endpoint.environment(), **(environment or {})})
    setting.addCleanup(process.end)
    return process


def qperf_output(start_client, seconds_max):
    """What a client of qperf prints. qperf's server announces its port before it listens there, so a quick client is refused, on
    any card; it has to retry."""
    for _ in range(_QPERF_TRIES_MAX):
        client = start_client()
        if client.wait(seconds_max) == 0 or "Event rejected" not in client.out() + client.err():
            break
    return client.expect_success(0)


@dataclass(frozen=True)
class Shape:
    """How a program is told its role: `prog -p PORT` serves, `prog -p PORT HOST` connects, if not said otherwise."""
    port: tuple = ("-p",)
    serve: tuple = ()
    connect: tuple = ()


def start_pair(setting, wire, program, arguments=(), shape=Shape(), environment=None):
    """Returns (server, client)."""
    port = free_tcp_port()
    common = [program, *shape.port, port, *arguments]
    label = f"{setting.next_number()}-{program.rsplit('/', 1)[-1]}"
    server = start(setting, wire.server, [*common, *shape.serve], f"{label}-server", environment)
    wait_until(lambda: server.ended() or listens(wire.server.pid, port), LISTEN_SECONDS_MAX,
               f"{program} listening")
    if server.ended():
        server.expect_success(0)
    client = start(setting, wire.client, [*common, *shape.connect, wire.server.tcp_host],
                   f"{label}-client", environment)
    return server, client


def run_pair(setting, wire, program, *arguments, seconds_max=PAIR_SECONDS_MAX, **options):
    """Both must succeed. Returns what the client printed."""
    server, client = start_pair(setting, wire, program, arguments, **options)
    try:
        out = client.expect_success(seconds_max)
        server.expect_success(seconds_max)
    except StillRuns as late:
        raise StillRuns(f"{late}; {standstill((client, server), wire.daemons)}") from None
    wire.expect_running()
    return out
