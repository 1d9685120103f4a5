"""`vlan_tags.py INTERFACE`: prints VLAN and priority of the RoCE frames that come in there, each pair once. (Frames that a
daemon sends aren't seen: qdisc_bypass.)"""

import socket
import struct
import sys

_SOL_PACKET, _PACKET_AUXDATA = 263, 8
_TP_STATUS_VLAN_VALID = 0x10
_ETH_P_ALL, _ETH_P_8021Q, _ETH_P_IP = 0x0003, 0x8100, 0x0800
_ETHERNET, _TAG, _IPV4, _ROCE_PORT = 14, 4, 20, 4791


def tag_beside(ancillary):
    """The kernel strips the tags of received frames and reports them in ancillary data."""
    for level, kind, data in ancillary:
        if level == _SOL_PACKET and kind == _PACKET_AUXDATA:
            status, _length, _snap, _mac, _net, tag, _type = struct.unpack("IIIHHHH", data[:20])
            if status & _TP_STATUS_VLAN_VALID:
                return tag
    return 0


def main():
    seen = set()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)) as tap:
        tap.bind((sys.argv[1], _ETH_P_ALL))
        tap.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        print("ready", flush=True)
        while True:
            frame, ancillary, _flags, _address = tap.recvmsg(2048, 256)
            tag, start = tag_beside(ancillary), _ETHERNET
            if struct.unpack_from("!H", frame, 12)[0] == _ETH_P_8021Q:
                tag, start = struct.unpack_from("!H", frame, _ETHERNET)[0], _ETHERNET + _TAG
            if struct.unpack_from("!H", frame, start - 2)[0] != _ETH_P_IP or len(frame) < start + _IPV4 + 4:
                continue
            if struct.unpack_from("!H", frame, start + _IPV4 + 2)[0] != _ROCE_PORT:
                continue
            found = (tag & 0xFFF, tag >> 13)
            if found not in seen:
                seen.add(found)
                print(*found, flush=True)


if __name__ == "__main__":
    main()
