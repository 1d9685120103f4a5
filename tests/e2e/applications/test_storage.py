"""Storage over RDMA: fio's rdma engine, which checks what it receives, and librpma's persistent memory."""

import os

from harness.application import ADDRESS, ApplicationCase
from harness.process import wait_until
from harness.rdmacm import listens
from harness.wires import free_tcp_port

_FIO_PORT = 7000  # its port space is the card's own
_FIO_SECONDS_MAX = 60
_FIO_BYTES, _FIO_BLOCKS = 4 << 20, 64
_FIO = ("fio", "--ioengine=rdma", f"--port={_FIO_PORT}", "--bs=64k", f"--size={_FIO_BYTES}", "--verify_state_save=0")


class Fio(ApplicationCase):
    def setUp(self):
        super().setUp()
        self.need("fio")
        self.end = self.card()

    def _run(self, verb, *client_arguments):
        """fio sets rnr_retry 0, so a late receiver isn't retried: it posts receives for all blocks in advance."""
        server = self.start(self.end, "fio-server", *_FIO, "--name=server", "--rw=read", f"--iodepth={_FIO_BLOCKS}",
                            "--verify=crc32c", "--verify_fatal=1")
        wait_until(lambda: server.ended() or listens(self, self.end, _FIO_PORT), 30, "fio listening")
        client = self.start(self.end, "fio-client", *_FIO, "--name=client", f"--hostname={ADDRESS}", f"--verb={verb}",
                            "--iodepth=4", "--iodepth_batch_complete=1", *client_arguments)
        return server, client

    def _expect_right(self, verb, *client_arguments):
        server, client = self._run(verb, *client_arguments)
        client.expect_success(_FIO_SECONDS_MAX)
        server.expect_success(_FIO_SECONDS_MAX)
        self.expect_sent(_FIO_BYTES, self.end.daemon)

    def test_fio_send(self):
        """The receiver takes each block's check sum out of it and compares."""
        self._expect_right("send", "--rw=write", "--verify=crc32c", "--do_verify=0")

    def test_fio_send_without_check_sums(self):
        """The check works: blocks without a check sum are refused."""
        server, _ = self._run("send", "--rw=write")
        server.expect_failure(_FIO_SECONDS_MAX)
        self.assertIn("verify: bad", server.out() + server.err())

    def test_fio_write(self):
        self._expect_right("write", "--rw=write")

    def test_fio_read(self):
        """verb=read: the client, whose job is always called "write" in fio, reads."""
        self._expect_right("read", "--rw=write")


class PersistentMemory(ApplicationCase):
    """A program on Debian's librpma: writes, flushes to persistence and to visibility, reads back; then the file is right."""

    bytes = 1 << 20

    def setUp(self):
        super().setUp()
        if not os.path.exists("/usr/include/librpma.h"):
            self.skipTest("librpma-dev isn't installed")

    def _run(self, server_end, client_end, folder):
        program = self.compiled("rpma_check.c", "gcc", "-lrpma", "-libverbs")
        path, port = os.path.join(folder, "pool"), free_tcp_port()
        with open(path, "wb") as pool:
            pool.truncate(self.bytes)
        os.chmod(path, 0o666)
        server = self.start(server_end, "server", program, "server", server_end.address, port, path, self.bytes)
        wait_until(lambda: server.ended() or listens(self, server_end, port), 30, "the server listening")
        client = self.start(client_end, "client", program, "client", server_end.address, port)
        self.assertIn(f"{self.bytes} bytes written", client.expect_success(60))
        server.expect_success(60)
        with open(path, "rb") as pool:
            found = pool.read()
        words = (((i + 1) * 0x9E3779B97F4A7C15) & (1 << 64) - 1 for i in range(self.bytes // 8))
        self.assertEqual(found, b"".join(word.to_bytes(8, "little") for word in words))
        self.expect_sent(self.bytes, client_end.daemon)

    def test_rpma(self):
        end = self.card()
        self._run(end, end, self.folder)

    def test_rpma_two_namespaces(self):
        self._run(*self.ordinary(self.wire("veth")), self.folder)
