"""Frames of the peer that the suites play, and parsing of the card's answers.

Frames are built here, with their checksums, and sent as raw bytes: the sending machine needs none of our modules.
"""

import struct
import zlib
from dataclasses import dataclass, replace
from socket import AF_INET6, inet_ntop, inet_pton

from scapy.contrib.roce import BTH
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6ND_NS, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw
from scapy.utils6 import in6_getnsma, in6_getnsmac

from uroce_dts.headers import (DETH, FETH, IETH, NAMES, OPCODES, RETH, ROCE_PORT, XRCETH, AtomicETH, ImmDt, has_aeth, has_reth,
                               is_atomic)

BARRIER = 0x7572  # the ICMP identifier of the barrier frame
_IP_HEADER, _UDP_HEADER, _BTH, _ICRC = 20, 8, 12, 4


@dataclass(frozen=True)
class Everything:
    """A capture filter without exceptions, with the attributes that DTS reads. Upstream ignores `gapless`: each of its
    captures is independent."""
    no_lldp: bool = False
    no_arp: bool = False
    gapless: bool = False  # begins where the previous capture ended


@dataclass(frozen=True)
class Ends:
    """Addresses of the card and of the emulated peer."""
    card_mac: str
    card_ip: str
    peer_mac: str
    peer_ip: str

    def ethernet(self):
        return Ether(src=self.peer_mac, dst=self.card_mac)

    def stranger(self):
        """The same, with another peer's IP address."""
        return replace(self, peer_ip=self.peer_ip.rsplit(".", 1)[0] + ".99")


def pattern(seed, length, skip=0):
    """The pattern of a seed, as in the conformance corpus."""
    return bytes((seed * 37 + i * 7 + (i >> 8) * 3) & 255 for i in range(skip, skip + length))


def flat(frame):
    """Raw bytes as a packet that no layer changes any more."""
    data = bytes(frame)
    return Ether(data[:14]) / Raw(data[14:])


def request(ends, opcode, qpn, psn, payload=b"", *, ack=False, solicited=False, pkey=0xFFFF, address=0, rkey=0,
            length=None, imm=0, invalidate=0, compare=0, swap=0, add=0, qkey=0, source_qp=0, placement=1, selectivity=0, srq=0,
            source_port=49152, tos=0, **bth):
    """The bytes of one request frame. `bth`: further fields of Scapy's BTH."""
    pad = -len(payload) % 4
    layers = BTH(**{"opcode": OPCODES[opcode], "solicited": int(solicited), "padcount": pad, "pkey": pkey,
                    "dqpn": qpn, "ackreq": int(ack), "psn": psn & 0xFFFFFF, **bth})
    if opcode.startswith("UD_"):
        layers /= DETH(qkey=qkey, source_qp=source_qp)
    if opcode.startswith("XRC_"):
        layers /= XRCETH(srq=srq)
    if opcode.endswith("_FLUSH"):
        layers /= FETH(placement=placement, selectivity=selectivity)
    if has_reth(opcode):
        layers /= RETH(address=address, rkey=rkey, length=len(payload) if length is None else length)
    if is_atomic(opcode):
        layers /= AtomicETH(address=address, rkey=rkey, compare=compare,
                            swap_add=swap if opcode.endswith("SWAP") else add)
    if opcode.endswith("_IMM"):
        layers /= ImmDt(immediate=imm)
    if opcode.endswith("_INV"):
        layers /= IETH(rkey=invalidate)
    frame = (ends.ethernet() / IP(src=ends.peer_ip, dst=ends.card_ip, ttl=64, id=0, flags="DF", tos=tos) /
             UDP(sport=source_port, dport=ROCE_PORT, chksum=0) / layers / Raw(payload + bytes(pad)))
    return bytes(frame)


def acknowledge(ends, qpn, psn, msn=1, syndrome=0x1F, original=None):
    """An answer of the peer's: ACK by default, NAK or RNR NAK by its syndrome; with `original` an atomic's."""
    body = struct.pack("!I", syndrome << 24 | msn)
    name = "RC_ACKNOWLEDGE"
    if original is not None:
        name, body = "RC_ATOMIC_ACKNOWLEDGE", body + struct.pack("!Q", original)
    return request(ends, name, qpn, psn, body)


def read_response(ends, opcode, qpn, psn, payload, msn=1):
    """Part of the answer to a READ."""
    pad = -len(payload) % 4
    head = struct.pack("!I", 0x1F << 24 | msn) if has_aeth(opcode) else b""
    return request(ends, opcode, qpn, psn, head + payload + bytes(pad), padcount=pad)


def seal(data):
    """Recomputes a frame's ICRC after a change."""
    body = data[:-_ICRC]
    return body + icrc(body)


def icrc(data):
    """The invariant CRC of a frame without its last four bytes (IBTA A17.9: IPv4)."""
    ip = bytearray(data[14:])
    ip[1] = ip[8] = ip[10] = ip[11] = 0xFF  # type of service, time to live, header checksum
    ip[26] = ip[27] = 0xFF  # UDP checksum
    ip[32] = 0xFF  # FECN, BECN and reserved bits of the BTH
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(ip)))


@dataclass(frozen=True)
class Answer:
    """A RoCEv2 frame of the card."""
    name: str
    qpn: int
    psn: int
    payload: bytes
    ack_requested: bool
    syndrome: int = 0
    msn: int = 0
    original: int = 0
    header: bytes = b""  # behind the BTH: RETH, AtomicETH, DETH ...
    becn: bool = False
    tos: int = 0
    icrc_right: bool = True

    def syndrome_name(self):
        kind, low = self.syndrome & 0xE0, self.syndrome & 0x1F
        return {0x00: "ACK", 0x20: f"RNR:{low}", 0x60: f"NAK:{low}"}.get(kind, f"#{self.syndrome}")

    def __str__(self):
        return f"{self.name} psn={self.psn} {self.syndrome_name()} msn={self.msn} payload={len(self.payload)}"


_HEADERS = {"WRITE_FIRST": 16, "WRITE_ONLY": 16, "WRITE_ONLY_IMM": 20, "READ_REQUEST": 16, "COMPARE_SWAP": 28,
            "FETCH_ADD": 28, "_LAST_IMM": 4, "SEND_ONLY_IMM": 4, "_INV": 4}


def answer(packet):
    """None if it is no RoCEv2 frame over IPv4."""
    data = bytes(packet)
    if len(data) < 14 + _IP_HEADER + _UDP_HEADER + _BTH + _ICRC or data[12:14] != b"\x08\x00" or data[23] != 17:
        return None
    data = data[:14 + struct.unpack_from("!H", data, 16)[0]]
    if struct.unpack_from("!H", data, 36)[0] != ROCE_PORT:
        return None
    opcode, flags, _, fecn_becn, qpn, ack_psn = struct.unpack_from("!BBHB3sI", data, 42)
    name = NAMES.get(opcode, f"#{opcode:#x}")
    body = data[54:-_ICRC]
    fields = {}
    if name.startswith(("RC_", "XRC_")) and has_aeth(name):
        word = struct.unpack_from("!I", body)[0]
        fields.update(syndrome=word >> 24, msn=word & 0xFFFFFF)
        body = body[4:]
    if name.endswith("_ATOMIC_ACKNOWLEDGE"):
        fields["original"] = struct.unpack_from("!Q", body)[0]
        body = body[8:]
    size = 8 if name.startswith("UD_") else 0
    size += next((length for suffix, length in _HEADERS.items() if name.endswith(suffix)), 0)
    pad = flags >> 4 & 3
    return Answer(name=name, qpn=int.from_bytes(qpn, "big"), psn=ack_psn & 0xFFFFFF,
                  payload=body[size:len(body) - pad], ack_requested=bool(ack_psn >> 31), header=body[:size],
                  becn=bool(fecn_becn & 0x40), tos=data[15], icrc_right=icrc(data[:-_ICRC]) == data[-_ICRC:], **fields)


def answers(packets):
    return [found for found in map(answer, packets) if found is not None]


def arp_request(ends, target=None):
    return bytes(Ether(src=ends.peer_mac, dst="ff:ff:ff:ff:ff:ff") /
                 ARP(op=1, hwsrc=ends.peer_mac, psrc=ends.peer_ip, pdst=target or ends.card_ip))


def neighbour_solicitation(ends, target):
    """To the group of the target's address, from the peer's link-local one (RFC 4861, 4.3)."""
    group = in6_getnsma(inet_pton(AF_INET6, target))
    return bytes(Ether(src=ends.peer_mac, dst=in6_getnsmac(group)) /
                 IPv6(src="fe80::ff:fe00:2", dst=inet_ntop(AF_INET6, group), hlim=255) /
                 ICMPv6ND_NS(tgt=target) / ICMPv6NDOptSrcLLAddr(lladdr=ends.peer_mac))


def echo_request(ends, identifier=BARRIER, sequence=0, payload=b""):
    return bytes(ends.ethernet() / IP(src=ends.peer_ip, dst=ends.card_ip) / ICMP(id=identifier, seq=sequence) /
                 Raw(payload))
