"""Pairs of programs that find each other by the RDMA connection manager."""

import json

from .process import wait_until
from .programs import LISTEN_SECONDS_MAX, PAIR_SECONDS_MAX, start
from .wires import free_tcp_port

_EARLY_CLIENTS_MAX = 10


def connections(setting, daemon):
    """The connection manager's part of the daemon's status report."""
    answer = setting.uroce("cm", "--json", daemon=daemon)
    setting.assertEqual(answer.returncode, 0, answer.stderr)
    return json.loads(answer.stdout)


def listens(setting, endpoint, port):
    return any(listener["port"] == port for listener in connections(setting, endpoint.daemon)["listeners"])


def start_server(setting, wire, command, port, environment=None):
    """Returns when it listens. See filled() for what may stand in `command`."""
    label = f"{setting.next_number()}-{command[0].rsplit('/', 1)[-1]}-server"
    server = start(setting, wire.server, filled(command, wire, port), label, environment)
    wait_until(lambda: server.ended() or listens(setting, wire.server, port), LISTEN_SECONDS_MAX,
               f"{command[0]} listening")
    if server.ended():
        server.expect_success(0)
    return server


def start_client(setting, wire, command, port, environment=None):
    label = f"{setting.next_number()}-{command[0].rsplit('/', 1)[-1]}-client"
    return start(setting, wire.client, filled(command, wire, port), label, environment)


def run_cm_pair(setting, wire, server_command, client_command, port=None, seconds_max=PAIR_SECONDS_MAX,
                environment=None):
    """Both must succeed. Returns what server and client printed."""
    port = port or free_tcp_port()
    server = start_server(setting, wire, server_command, port, environment)
    client = start_client(setting, wire, client_command, port, environment)
    out = client.expect_success(seconds_max)
    server_out = server.expect_success(seconds_max)
    wire.expect_running()
    return server_out, out


def run_perftest_cm_pair(setting, wire, command, address="SERVER"):
    """A tool of perftest with -R, which connects twice; the client's second time may come before the server listens
    again. It is refused then and, trying again itself, crashes in what it freed before."""
    for _ in range(_EARLY_CLIENTS_MAX):
        port = free_tcp_port()
        server = start_server(setting, wire, command, port)
        client = start_client(setting, wire, [*command, address], port)
        code = client.wait(PAIR_SECONDS_MAX)
        if code == 0:
            server.expect_success(PAIR_SECONDS_MAX)
            wire.expect_running()
            return
        # Refused: of a connection, and of a datagram service (SIDR_REP: service ID not supported).
        setting.assertRegex(client.out() + client.err(), "REJECTED; error: 8|UNREACHABLE; error: 1[^0-9]",
                            client.last_words())
        server.kill()
        server.wait(PAIR_SECONDS_MAX)
    setting.fail(f"{command[0]} came too early {_EARLY_CLIENTS_MAX} times")


def ping_with_many(setting, wire, address, count, seconds_max):
    """rping -P at `address`, a thread and a connection for each of `count` clients; every ping's data must be right."""
    port, pings, common = free_tcp_port(), 500, ["-V", "-a", address, "-p", "PORT", "-S", 1000]
    server = start_server(setting, wire, ["rping", "-s", "-P", *common], port)
    clients = []
    for _ in range(count):
        client = start_client(setting, wire, ["rping", "-c", "-v", "-C", pings, *common], port)
        # Of two requests that come at once rping's server forgets one, so the next client waits until this one pings.
        wait_until(lambda client=client: client.ended() or client.out(), seconds_max, "rping's first pings")
        clients.append(client)
    for client in clients:
        setting.assertEqual(client.expect_success(seconds_max).count("ping data: "), pings, client.last_words())
    setting.assertFalse(server.ended(), server.last_words())
    server.end()
    wire.expect_running()


def filled(command, wire, port):
    """PORT, SERVER and CLIENT stand for the port and the addresses of both cards."""
    values = {"PORT": str(port), "SERVER": wire.server.address, "CLIENT": wire.client.address}
    return [values.get(str(word), str(word)) for word in command]
