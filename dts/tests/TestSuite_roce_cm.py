"""Connection management over QP1, with hand-made datagrams."""

import os
import subprocess
import time

from api.capabilities import LinkTopology, requires_link_topology
from api.test import fail, skip, verify, verify_else_skip
from framework.test_suite import func_test

from uroce_dts import cm
from uroce_dts.bench import TIMER_SECONDS, RoceSuite

TRANSACTION, PORT = 0x77, 7174
SECONDS_MAX = 20


@requires_link_topology(LinkTopology.ONE_LINK)
class TestRoceCm(RoceSuite):
    """The listener, where one is needed, is rping of Debian's rdmacm-utils, on the daemon's machine."""

    def set_up_suite(self) -> None:
        super().set_up_suite()
        self._local_id = 0x1000

    def set_up_test_case(self) -> None:
        super().set_up_test_case()
        self._listener = None

    def tear_down_test_case(self) -> None:
        if self._listener:
            self._listener.kill()
            self._listener.communicate()
        super().tear_down_test_case()

    def _mad(self, payload, **fields):
        fields = {"qkey": cm.GSI_QKEY, "source_qp": cm.GSI_QPN, "qpn": cm.GSI_QPN, **fields}
        return self.request(fields.pop("opcode", "UD_SEND_ONLY"), 1, payload, **fields)

    def _messages(self, payload):
        """Sends a MAD; returns the MADs that come shortly after."""
        got = self.exchange(self._mad(payload), seconds=TIMER_SECONDS)
        for answer in got:
            verify(answer.icrc_right and answer.name == "UD_SEND_ONLY" and answer.qpn == cm.GSI_QPN, f"{answer}")
        messages = [message for message in (cm.parse(answer.payload) for answer in got) if message]
        for message in messages:
            verify(message.transaction == TRANSACTION, f"transaction {message.transaction:#x}")
        return messages

    def _ask(self, payload, kind):
        """Sends a MAD repeatedly until one of the wanted kind comes; returns that one."""
        end = time.monotonic() + SECONDS_MAX
        while time.monotonic() < end:
            for message in self._messages(payload):
                if message.kind == kind:
                    return message
        fail(f"no MAD of kind {kind:#x} in {SECONDS_MAX} s")

    def _listen(self):
        tool = os.path.join(os.path.dirname(self.config.uroced), "uroce")
        verify_else_skip(os.path.exists(tool), "the daemon runs on another machine: the suite can't start a listener there")
        command = [tool, "run", "--", "rping", "-s", "-v", "-a", self.config.card_ip, "-p", str(PORT)]
        try:
            self._listener = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "UROCE_SOCKET": self.shell.socket},
            )
        except OSError as error:
            skip(f"no listener: {error}")

    def _request(self, port=PORT):
        """A fresh queue pair number: a queue pair that was connected before is stale for a while (IBTA vol. 1, 12.9.8.3.1)."""
        self._local_id += 1
        return cm.request(self.ends, port, self._local_id, TRANSACTION, qpn=self._local_id)

    @func_test
    def nobody_listens(self) -> None:
        """A request for a port without a listener.

        Steps:
            Send a REQ.

        Verify:
            REJ, invalid service ID, for this request.
        """
        reject = self._ask(self._request(port=1), cm.REJ)
        verify(reject.reject_reason == cm.INVALID_SERVICE_ID, f"the reason is {reject.reject_reason}")
        verify(reject.remote_id == self._local_id, f"it is about {reject.remote_id:#x}")

    @func_test
    def connect_and_disconnect(self) -> None:
        """A connection from beginning to end.

        Steps:
            Start a listener. Send a REQ, an RTU for the REP, a DREQ.

        Verify:
            REP names a queue pair and this request; DREP answers the DREQ.
        """
        self._listen()
        replies = []
        end = time.monotonic() + SECONDS_MAX
        while not replies and time.monotonic() < end:  # the listener may not be ready yet
            replies = [message for message in self._messages(self._request()) if message.kind == cm.REP]
        verify(bool(replies), "no REP")
        reply = replies[0]
        verify(reply.remote_id == self._local_id and reply.qpn > 1, f"REP for {reply.remote_id:#x}, QP {reply.qpn}")
        self.expect(self.exchange(self._mad(cm.ready_to_use(reply, TRANSACTION))))
        ended = self._ask(cm.disconnect_request(self._local_id, reply.local_id, reply.qpn, TRANSACTION), cm.DREP)
        verify(ended.remote_id == self._local_id, f"DREP for {ended.remote_id:#x}")

    @func_test
    def wrong_queue_key(self) -> None:
        """A MAD with another Q_Key.

        Steps:
            Send a REQ with the Q_Key of ordinary datagrams.

        Verify:
            Silence; it is counted as bad_qkey.
        """
        self.expect_dropped("bad_qkey", self._mad(self._request(), qkey=0x11111111))

    @func_test
    def wrong_length(self) -> None:
        """A MAD that isn't 256 bytes long.

        Steps:
            Send a REQ without its last four bytes, and one with four more.

        Verify:
            Silence; both are counted as bad_mad_length.
        """
        mad = self._request()
        self.expect_dropped("bad_mad_length", self._mad(mad[:-4]), self._mad(mad + bytes(4)))

    @func_test
    def not_a_datagram(self) -> None:
        """A connected-service request for QP1.

        Steps:
            Send an RC SEND to QP1.

        Verify:
            Silence; it is counted as wrong_qp_type.
        """
        self.expect_dropped("wrong_qp_type", self._mad(self._request(), opcode="RC_SEND_ONLY"))

    @func_test
    def nonsense(self) -> None:
        """Malformed datagrams for QP1.

        Steps:
            Send 256 zeroes, a pattern, and a REQ of an unknown class; then a good REQ.

        Verify:
            Silence, and then REJ as ever.
        """
        mad = self._request(port=1)
        for payload in (bytes(256), bytes(range(256)), mad[:1] + b"\x42" + mad[2:]):
            self.expect(self.exchange(self._mad(payload)))
        self._ask(mad, cm.REJ)
