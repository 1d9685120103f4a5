"""Local stand-ins for api.packet of DTS: frames to and from the peer's end of the veth pair."""

import select
import socket
import struct
import time

from scapy.layers.l2 import Ether

_ANY_PROTOCOL = 3  # ETH_P_ALL
_OUTGOING = 4  # PACKET_OUTGOING
_SECONDS_MAX = 20  # for the answer to an echo request on a busy machine
_wire = None
exchange = None  # for the runner: replaces the wire: a function of frames and of whether to wait that returns frames
mangle = None  # for the runner: maps a captured frame to another one, or to None


def open_wire(interface):
    """For the runner: sets where frames go, once and for all."""
    global _wire
    _wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ANY_PROTOCOL))
    _wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    _wire.bind((interface, 0))


def send_packets(packets):
    if exchange:
        return  # nobody waits for the answers
    for packet in packets:
        _wire.send(bytes(packet))


def send_packet_and_capture(packet, filter_config=None, duration=1):
    return send_packets_and_capture([packet], filter_config, duration)


def send_packets_and_capture(packets, filter_config=None, duration=1):
    """Captures for `duration`; if the last packet is an ICMP echo request, until its answer arrives. Frames from before it
    began are discarded, unless the filter is gapless."""
    if exchange:
        frames = [bytes(packet) for packet in packets]
        answers = [mangle(data) if mangle else data for data in exchange(frames, not _echo(frames[-1], 8))]
        return [Ether(data) for data in answers if data is not None]
    while not getattr(filter_config, "gapless", False) and select.select([_wire], [], [], 0)[0]:
        _wire.recv(65536)
    send_packets(packets)
    echo = _echo(bytes(packets[-1]), 8) if packets else None
    end = time.monotonic() + (_SECONDS_MAX if echo else duration)
    captured = []
    while (left := end - time.monotonic()) > 0:
        if not select.select([_wire], [], [], left)[0]:
            break
        data, address = _wire.recvfrom(65536)
        if address[2] == _OUTGOING:
            continue
        if echo and _echo(data, 0) == echo:
            return captured
        data = mangle(data) if mangle else data
        if data is not None:
            captured.append(Ether(data))
    if echo:
        raise TimeoutError("the card doesn't answer an echo request any more")
    return captured


def _echo(frame, kind):
    """Identifier and sequence number of an ICMP echo message of this kind, or None."""
    if len(frame) < 42 or frame[12:14] != b"\x08\x00" or frame[23] != 1 or frame[34] != kind:
        return None
    return struct.unpack_from("!HH", frame, 38)
