"""Hand-made connection management datagrams (IBTA vol. 1, 12.6), as Linux's rdma_cm fills them."""

import ipaddress
import struct
from dataclasses import dataclass

GSI_QPN, GSI_QKEY, MAD_LENGTH = 1, 0x80010000, 256
REQ, REJ, REP, RTU, DREQ, DREP = 0x0010, 0x0012, 0x0013, 0x0014, 0x0015, 0x0016
INVALID_SERVICE_ID, NO_SUCH_CONNECTION = 8, 28
_CLASS, _CLASS_VERSION, _SEND = 0x07, 2, 3
_TCP_SERVICE = 0x01060000  # with the port: the service of RDMA_PS_TCP
_GUID = 0x0200000000000002  # ours; it isn't checked
_HEADER = struct.Struct("!BBBBHHQHHI")


@dataclass(frozen=True)
class Message:
    """A MAD of the CM class; only the fields that all kinds share are parsed."""
    kind: int
    transaction: int
    body: bytes

    @property
    def local_id(self):
        return struct.unpack_from("!I", self.body)[0]

    @property
    def remote_id(self):
        return struct.unpack_from("!I", self.body, 4)[0]

    @property
    def reject_reason(self):
        """REJ: after the two identifiers, what was rejected and the length of the additional information."""
        return struct.unpack_from("!H", self.body, 10)[0]

    @property
    def qpn(self):
        """REP: the sender's queue pair."""
        return struct.unpack_from("!I", self.body, 12)[0] >> 8


def parse(payload):
    """None if it is no MAD of the CM class."""
    if len(payload) != MAD_LENGTH or payload[:4] != bytes([1, _CLASS, _CLASS_VERSION, _SEND]):
        return None
    return Message(struct.unpack_from("!H", payload, 16)[0], struct.unpack_from("!Q", payload, 8)[0], payload[_HEADER.size:])


def _mad(kind, transaction, body):
    header = _HEADER.pack(1, _CLASS, _CLASS_VERSION, _SEND, 0, 0, transaction, kind, 0, 0)
    return (header + body).ljust(MAD_LENGTH, b"\0")


def _mapped(address):
    return bytes(10) + b"\xff\xff" + ipaddress.IPv4Address(address).packed


def request(ends, port, local_id, transaction, qpn=0x222, psn=100):
    """REQ to the RDMA_PS_TCP service of a port: path MTU 1024, one read each way, 15 retries."""
    body = struct.pack("!IIQQII", local_id, 0, _TCP_SERVICE + port, _GUID, 0, 0)
    body += struct.pack("!II", qpn << 8 | 1, 0 << 8 | 1)  # queue pair and responder resources; initiator depth
    body += struct.pack("!I", 0 << 8 | 20 << 3 | 0 << 1 | 1)  # response timeout; RC; end-to-end flow control
    body += struct.pack("!I", psn << 8 | 20 << 3 | 7)  # response timeout; retries
    body += struct.pack("!HBB", 0xFFFF, 3 << 4 | 7, 15 << 4)  # P_Key; path MTU 1024, RNR retries; CM retries
    body += struct.pack("!HH", 0xFFFF, 0xFFFF) + _mapped(ends.peer_ip) + _mapped(ends.card_ip)
    body += struct.pack("!IBBBB", 0, 0, 64, 0, 18 << 3)  # hop limit; acknowledgement timeout
    body += bytes(44)  # no alternate path
    body += struct.pack("!BBH", 0, 4 << 4, 40000) + bytes(12) + ipaddress.IPv4Address(ends.peer_ip).packed
    body += bytes(12) + ipaddress.IPv4Address(ends.card_ip).packed
    return _mad(REQ, transaction, body)


def ready_to_use(reply, transaction):
    return _mad(RTU, transaction, struct.pack("!II", reply.remote_id, reply.local_id))


def disconnect_request(local_id, remote_id, remote_qpn, transaction):
    return _mad(DREQ, transaction, struct.pack("!III", local_id, remote_id, remote_qpn << 8))
