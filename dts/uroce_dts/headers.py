"""RoCEv2 headers that Scapy 2.5 lacks, and the opcodes. IBTA volume 1, chapter 9."""

from scapy.fields import BitField, ByteField, IntField, LongField, XIntField, XLongField
from scapy.packet import Packet

ROCE_PORT = 4791

_SUFFIXES = {0x00: "SEND_FIRST", 0x01: "SEND_MIDDLE", 0x02: "SEND_LAST", 0x03: "SEND_LAST_IMM", 0x04: "SEND_ONLY",
             0x05: "SEND_ONLY_IMM", 0x06: "WRITE_FIRST", 0x07: "WRITE_MIDDLE", 0x08: "WRITE_LAST",
             0x09: "WRITE_LAST_IMM", 0x0A: "WRITE_ONLY", 0x0B: "WRITE_ONLY_IMM", 0x0C: "READ_REQUEST",
             0x0D: "READ_RESPONSE_FIRST", 0x0E: "READ_RESPONSE_MIDDLE", 0x0F: "READ_RESPONSE_LAST",
             0x10: "READ_RESPONSE_ONLY", 0x11: "ACKNOWLEDGE", 0x12: "ATOMIC_ACKNOWLEDGE", 0x13: "COMPARE_SWAP",
             0x14: "FETCH_ADD", 0x16: "SEND_LAST_INV", 0x17: "SEND_ONLY_INV", 0x1C: "FLUSH",
             0x1D: "ATOMIC_WRITE"}
_TRANSPORTS = {"RC": 0x00, "UC": 0x20, "UD": 0x60, "XRC": 0xA0}

NAMES = {base + code: f"{transport}_{suffix}" for transport, base in _TRANSPORTS.items()
         for code, suffix in _SUFFIXES.items()}
NAMES[0x81] = "CNP"
NAMES[0xC0], NAMES[0xC1] = "UROCE_SACK_REQUEST", "UROCE_SACK"
OPCODES = {name: opcode for opcode, name in NAMES.items()}


class RETH(Packet):
    name = "RETH"
    fields_desc = [XLongField("address", 0), XIntField("rkey", 0), IntField("length", 0)]


class AtomicETH(Packet):
    name = "AtomicETH"
    fields_desc = [XLongField("address", 0), XIntField("rkey", 0), LongField("swap_add", 0), LongField("compare", 0)]


class AtomicAckETH(Packet):
    name = "AtomicAckETH"
    fields_desc = [LongField("original", 0)]


class FETH(Packet):
    """Annex A19. Placement: 1 global visibility, 2 persistence; selectivity: 0 a range, 1 the whole region."""
    name = "FETH"
    fields_desc = [BitField("reserved", 0, 26), BitField("selectivity", 0, 2), BitField("placement", 1, 4)]


class XRCETH(Packet):
    name = "XRCETH"
    fields_desc = [ByteField("reserved", 0), BitField("srq", 0, 24)]


class DETH(Packet):
    name = "DETH"
    fields_desc = [XIntField("qkey", 0), ByteField("reserved", 0), BitField("source_qp", 0, 24)]


class ImmDt(Packet):
    name = "ImmDt"
    fields_desc = [XIntField("immediate", 0)]


class IETH(Packet):
    name = "IETH"
    fields_desc = [XIntField("rkey", 0)]


def has_reth(name):
    """Whether a request with this opcode name has a RETH."""
    return name.endswith(("WRITE_FIRST", "WRITE_ONLY", "WRITE_ONLY_IMM", "READ_REQUEST", "ATOMIC_WRITE", "FLUSH"))


def is_atomic(name):
    return name.endswith(("COMPARE_SWAP", "FETCH_ADD"))


def has_aeth(name):
    """Whether an answer with this opcode name has an AETH."""
    return name.endswith(("ACKNOWLEDGE", "RESPONSE_FIRST", "RESPONSE_LAST", "RESPONSE_ONLY"))
