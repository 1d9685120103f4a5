"""Ceph with all messages over its messenger `async+rdma`: a monitor, an OSD and their clients, each a process of its own. Debian 12's
packages in a root of their own, as they are large and have services; only with --long."""

import os
import re
import uuid

from harness.application import ADDRESS, CARD_NAME, ApplicationCase
from harness.debian_root import DebianRoot
from harness.process import Process, wait_until
from harness.programs import listens

_PORT = 6789  # in a network namespace of our own
_SECONDS_MAX = 60
_BENCH_SECONDS = 2
_TRIES_MAX = 5
_FOLDER = "/uroce/run"  # the case's folder, as programs in the root see it
# The defaults register 4096 receives of 128 KiB a program. Version 2 of the protocol and keys have nothing to do with the transport.
_SETTINGS = {
    "ms_type": "async+rdma",
    "ms_async_rdma_device_name": CARD_NAME,
    "ms_async_rdma_gid_idx": 1,
    "ms_async_rdma_buffer_size": 65536,
    "ms_async_rdma_receive_queue_len": 256,
    "ms_async_rdma_receive_buffers": 1024,
    "ms_async_rdma_send_buffers": 256,
    "ms_bind_msgr2": "false",
    "mon_host": f"v1:{ADDRESS}:{_PORT}",
    "auth_cluster_required": "none",
    "auth_service_required": "none",
    "auth_client_required": "none",
    "admin_socket": f"{_FOLDER}/$name.asok",
    "log_file": "/uroce/logs/$name.log",
    "mon_data": f"{_FOLDER}/mon",
    "mon_data_avail_crit": 1,
    "osd_data": f"{_FOLDER}/osd",
    "keyring": f"{_FOLDER}/keyring",
    "osd_objectstore": "memstore",
    "memstore_device_bytes": 1 << 33,  # memory is used only for what is written; a full OSD never answers
    "osd_pool_default_size": 1,
    "osd_pool_default_min_size": 1,
    "mon_allow_pool_size_one": "true",
    "osd_crush_chooseleaf_type": 0,
}


class Ceph(ApplicationCase):
    seconds_max = 900  # the first one makes the root
    user = ()  # entering the root takes root

    def setUp(self):
        super().setUp()
        if not os.environ.get("UROCE_E2E_LONG"):
            self.skipTest("only with --long: Ceph's packages are installed in a root of their own")
        self.root = DebianRoot(self, "bookworm", ("ceph-mon", "ceph-osd", "ceph-common"), "ceph")
        self.end = self.card()
        self.cluster = uuid.uuid4()
        for name in ("mon", "osd"):
            os.mkdir(os.path.join(self.folder, name))
        settings = {"fsid": self.cluster, **_SETTINGS}
        with open(os.path.join(self.folder, "ceph.conf"), "w", encoding="ascii") as text:
            text.write("[global]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items()))

    def _start(self, *command):
        process = Process([*self.end.prefix, *self.root.prefix(self.end.daemon), f"CEPH_CONF={_FOLDER}/ceph.conf", *command],
                          f"{self.next_number()}-{command[0]}", self.logs)
        self.addCleanup(process.end)
        return process

    def _run(self, *command):
        return self._start(*command).expect_success(_SECONDS_MAX)

    def _ask(self, *words):
        """A program that asks before it has the monitor's map sends an empty cluster id ("fsid 0" in the monitor's log) and is
        refused; so it is over TCP."""
        for _ in range(_TRIES_MAX):
            client = self._start("ceph", *words)
            if client.wait(_SECONDS_MAX) == 0 or "problem getting command descriptions" not in client.err():
                break
        return client.expect_success(0)

    def _started_store(self, monitor):
        """Returns when the daemon is up; one that sent an empty cluster id exits, sometimes silently, and is restarted."""
        for _ in range(_TRIES_MAX):
            store = self._start("ceph-osd", "-f", "-i", "0")
            wait_until(lambda: monitor.ended() or store.ended() or " 1 up" in self._ask("osd", "stat"), _SECONDS_MAX, "the store")
            if not store.ended():
                break
        return store

    def _start_cluster(self):
        self._run("ceph-authtool", "--create-keyring", f"{_FOLDER}/keyring", "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        self._run("monmaptool", "--create", "--addv", "a", f"[v1:{ADDRESS}:{_PORT}]", "--fsid", self.cluster, f"{_FOLDER}/map")
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", f"{_FOLDER}/map", "--keyring", f"{_FOLDER}/keyring")
        monitor = self._start("ceph-mon", "-f", "-i", "a")
        wait_until(lambda: monitor.ended() or listens(self.end.pid, _PORT), _SECONDS_MAX, "the monitor listening")
        store = uuid.uuid4()
        self._ask("osd", "new", store)
        self._run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", store)
        return [monitor, self._started_store(monitor)]

    def _expect_running(self, daemons):
        for daemon in daemons:
            if daemon.ended():
                self.fail(f"{daemon.name} ended with {daemon.wait(0)}: {daemon.last_words()}")

    def test_rados(self):
        """An object of 10 MB is put and got by programs of their own; then rados bench writes, and reads what it wrote, which it
        compares."""
        daemons = self._start_cluster()
        self._expect_running(daemons)
        self._ask("osd", "pool", "create", "pool", "8")
        content = os.urandom(10_000_000)
        with open(os.path.join(self.folder, "put"), "wb") as file:
            file.write(content)
        self._run("rados", "-p", "pool", "put", "object", f"{_FOLDER}/put")
        self._run("rados", "-p", "pool", "get", "object", f"{_FOLDER}/got")
        with open(os.path.join(self.folder, "got"), "rb") as file:
            self.assertTrue(file.read() == content, "another object than was put")
        bench = ("rados", "-p", "pool", "bench", _BENCH_SECONDS)
        for direction in (("write", "-b", 65536, "-t", 4, "--no-cleanup"), ("seq", "-t", 4)):
            out = self._run(*bench, *direction)
            print(direction[0], re.search(r"Bandwidth.*", out).group(), flush=True)
        self._expect_running(daemons)
        self.expect_sent(3 * len(content), self.end.daemon)
