"""Falsifies the card's answers on their way to the suite, to test the tests. Each kind maps a frame to a frame, or to None."""

from uroce_dts.packets import answer, icrc

_PSN, _MSN, _LENGTH = 51, 57, 66  # their offsets: a BTH's PSN, the last byte of an AETH's MSN, an RETH's length
_ICRC = 4  # bytes at the end


def _is_answer(data):
    found = answer(data)
    return found is not None and found.name.startswith("RC_") and found.name.endswith(("ACKNOWLEDGE", "ONLY", "LAST"))


def _msn(data):
    if not _is_answer(data):
        return data
    body = data[:_MSN] + bytes([data[_MSN] ^ 1]) + data[_MSN + 1:-_ICRC]
    return body + icrc(body)


def _icrc(data):
    return data[:-1] + bytes([data[-1] ^ 1]) if _is_answer(data) else data


def _pad(data):
    """Clears the pad count of packets that have pad bytes."""
    if not _is_answer(data) or not data[43] & 0x30:
        return data
    body = data[:43] + bytes([data[43] & ~0x30]) + data[44:-_ICRC]
    return body + icrc(body)


def _nak(data):
    found = answer(data)
    return None if found is not None and found.syndrome_name().startswith("NAK") else data


def _hole(data):
    """A NAK names the packet after the missing one."""
    found = answer(data)
    if found is None or not found.syndrome_name().startswith("NAK"):
        return data
    body = data[:_PSN] + (found.psn + 1).to_bytes(3, "big") + data[_PSN + 3:-_ICRC]
    return body + icrc(body)


def _reread(data):
    """A READ request for one packet requests two."""
    found = answer(data)
    if found is None or found.name != "RC_READ_REQUEST" or data[_LENGTH:_LENGTH + 4] != b"\0\0\4\0":
        return data
    body = data[:_LENGTH] + b"\0\0\10\0" + data[_LENGTH + 4:-_ICRC]
    return body + icrc(body)


def _cnp(data):
    found = answer(data)
    return None if found is not None and found.name == "CNP" else data


def _sack(data):
    found = answer(data)
    return None if found is not None and found.name == "UROCE_SACK" else data


KINDS = {"msn": _msn, "icrc": _icrc, "pad": _pad, "nak": _nak, "hole": _hole, "reread": _reread, "cnp": _cnp,
         "sack": _sack}
