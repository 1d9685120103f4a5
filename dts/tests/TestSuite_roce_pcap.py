"""net_pcap receives from a capture file and writes the card's answers to another: no wire, no second machine."""

import os
import tempfile
import time

from api.capabilities import LinkTopology, requires_link_topology
from api.test import verify, verify_else_skip
from framework.test_suite import TestSuite, func_test

from scapy.layers.l2 import Ether

from uroce_dts import packets
from uroce_dts.bench import IOVA, KEY, PEER_QPN, QPN, Config
from uroce_dts.console import UrocedShell
from uroce_dts.packets import Ends, answers, pattern
from uroce_dts.pcap_files import read_capture, write_capture

SECONDS_MAX = 20
ARP, IPV4 = 0x0806, 0x0800
FILE_BYTES_MAX, FRAMES_MAX = 1 << 24, 50  # the daemon never stops writing


@requires_link_topology(LinkTopology.NO_LINK)
class TestRocePcap(TestSuite):
    """The daemon reads a file repeatedly (infinite_rx): requests from before the queue pair existed come again."""

    needs_no_wire = True  # for the local runner
    config: Config
    Config = Config

    def set_up_suite(self) -> None:
        """The files are on the daemon's machine."""
        verify_else_skip(os.path.exists(self.config.uroced), "the daemon runs on another machine")

    def set_up_test_case(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="uroce-dts-pcap-")
        self._out = os.path.join(self._folder.name, "out.pcap")
        config = self.config
        # The recorded frames may have any destination MAC address, not only the card's.
        self._ends = Ends("02:00:00:00:00:55", config.card_ip, config.peer_mac, config.peer_ip)
        self._shell = None

    def tear_down_test_case(self) -> None:
        if self._shell:
            self._shell.close()
        self._folder.cleanup()

    def _play(self, *frames):
        """Starts the daemon on a file of these frames, followed by one from which it learns the peer's MAC address."""
        path = os.path.join(self._folder.name, "in.pcap")
        write_capture(path, [*frames, packets.arp_request(self._ends)])
        port = f"net_pcap0,rx_pcap={path},tx_pcap={self._out},infinite_rx=1"
        self._shell = UrocedShell(self.config.uroced, f"{self.config.card_ip}/24", 1500, port)
        self._shell.start_application()

    def _sent(self, ethertype):
        """The first few frames of this type in the file of answers so far."""
        if not os.path.exists(self._out):
            return []
        frames = read_capture(self._out, FILE_BYTES_MAX)
        return [frame for frame in frames if frame[12:14] == ethertype.to_bytes(2, "big")][:FRAMES_MAX]

    def _answers(self):
        return answers([Ether(frame) for frame in self._sent(IPV4)])

    def _wait_for(self, what, look):
        end = time.monotonic() + SECONDS_MAX
        while not look():
            verify(time.monotonic() < end, f"{what} isn't in the file after {SECONDS_MAX} s")

    def _request(self, opcode, psn, payload=b"", **fields):
        return packets.request(self._ends, opcode, QPN, psn, payload, **fields)

    @func_test
    def arp_and_ping(self) -> None:
        """Frames other than RoCE.

        Steps:
            Play an ARP request and an ICMP echo request.

        Verify:
            The file of answers gets an ARP reply and an echo reply.
        """
        self._play(packets.echo_request(self._ends, 7, 1, b"hello"))
        self._wait_for("an ARP reply", lambda: any(frame[20:22] == b"\0\2" for frame in self._sent(ARP)))
        self._wait_for("an echo reply", lambda: any(frame[23] == 1 and frame[34] == 0 for frame in self._sent(IPV4)))

    @func_test
    def recorded_write(self) -> None:
        """A WRITE.

        Steps:
            Play a WRITE; make its queue pair and region meanwhile.

        Verify:
            It is acknowledged, again each time it is played again; the memory has its bytes.
        """
        self._play(self._request("RC_WRITE_ONLY", 100, pattern(7, 16), address=IOVA, rkey=KEY, ack=True))
        self._shell.ask(f"region A length=4096 key={KEY} iova={IOVA} seed=0")
        self._shell.ask(f"qp q peer={self.config.peer_ip} qpn={QPN} peer_qpn={PEER_QPN} psn=100")
        self._wait_for("an acknowledgement", lambda: len(self._answers()) > 1)
        for answer in self._answers():
            verify({"psn=100", "ACK"} <= set(str(answer).split()), f"the answer is {answer}")
            verify(answer.icrc_right, f"the ICRC of {answer} is wrong")
        verify(self._shell.ask("memory A+0:16 seed=7")["match"] == "yes", "the memory differs")

    @func_test
    def recorded_datagrams(self) -> None:
        """Datagrams.

        Steps:
            Play a datagram; make its queue pair, with one receive posted.

        Verify:
            It is received once, and not answered.
        """
        self._play(self._request("UD_SEND_ONLY", 5, pattern(3, 32), qkey=0x11111111, source_qp=PEER_QPN))
        self._shell.ask(f"region A length=4096 key={KEY} iova=0 seed=0")
        self._shell.ask(f"qp q peer={self.config.peer_ip} qpn={QPN} type=UD")
        self._shell.ask("recv q 9 to=A")
        got = self._shell.ask("poll q recv wait=20000")
        verify(got.get("wr") == "9" and got.get("length") == "72", f"the completion is {got}")
        verify(self._shell.ask("memory A+40:32 seed=3")["match"] == "yes", "the memory differs")
        verify(not self._answers(), "it was answered")

    @func_test
    def broken_packets(self) -> None:
        """Bad frames in the file.

        Steps:
            Play a WRITE with a wrong ICRC, one for no queue pair, and a frame of four bytes.

        Verify:
            Nothing is answered; each counts under its name.
        """
        good = self._request("RC_WRITE_ONLY", 100, b"abcd", address=IOVA, rkey=KEY, ack=True)
        self._play(good[:-1] + bytes([good[-1] ^ 1]), good, good[:20])
        names = ("drop.bad_icrc", "drop.unknown_qp", "drop.truncated")
        self._wait_for("each kind", lambda: all(int(self._shell.ask("counters").get(name, 0)) for name in names))
        verify(not self._answers(), "something was answered")
