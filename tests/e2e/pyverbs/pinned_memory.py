"""Registered memory that the program goes on to use as any other, with libc's own malloc: `pinned_memory.py dropped`,
and so on. Nothing here is paged on demand. Prints what it measured as JSON; anything that isn't as it should be raises."""

import ctypes
import errno
import json
import mmap
import os
import sys
import threading

import pyverbs.enums as e
from odp_hazards import ON_DEMAND, PAGE, REMOTE, Card, connected_pair, source
from pyverbs.pyverbs_error import PyverbsRDMAError

MIB = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)
for _name, _result, _arguments in (
        ("malloc", ctypes.c_void_p, [ctypes.c_size_t]),
        ("calloc", ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_size_t]),
        ("realloc", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t]),
        ("free", None, [ctypes.c_void_p]),
        ("malloc_trim", ctypes.c_int, [ctypes.c_size_t]),
        ("mallopt", ctypes.c_int, [ctypes.c_int, ctypes.c_int]),
        ("mmap", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]),
        ("mremap", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]),
        ("munmap", ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t]),
        ("madvise", ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int])):
    getattr(_libc, _name).restype, getattr(_libc, _name).argtypes = _result, _arguments
_FAILED = ctypes.c_void_p(-1).value
_MREMAP_MAYMOVE = 1
_MAP_FIXED = 0x10
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def mapped(length):
    address = _libc.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert address != _FAILED, os.strerror(ctypes.get_errno())
    ctypes.memset(address, 0xff, length)
    return address


def content(address, length):
    """The value of all bytes of the memory; fails if they differ."""
    held = ctypes.string_at(address, length)
    assert held.count(held[0]) == length, f"{length - held.count(held[0])} bytes of {length} differ"
    return held[0]


def written_by_a_peer(card, address, length):
    """Registers it, lets a peer write all of it, deregisters."""
    kept, local = source(card)
    one, _other = connected_pair(card)
    region = card.region(address, length, REMOTE)
    for offset in range(0, length, len(kept)):
        step = min(len(kept), length - offset)
        one.expect_success(e.IBV_WR_RDMA_WRITE, local, step, region.rkey, address + offset)
        assert ctypes.string_at(address + offset, step) == kept[:step]
    region.close()


def dropped():
    """Memory that the program drops reads as zeroes, and a peer's later writes to it arrive."""
    card = Card()
    address = mapped(4 * MIB)
    written_by_a_peer(card, address + MIB, MIB)
    assert _libc.madvise(address + MIB // 2, MIB, mmap.MADV_DONTNEED) == 0
    assert content(address, MIB // 2) == 0xff
    assert content(address + MIB // 2, MIB) == 0
    written_by_a_peer(card, address, 4 * MIB)
    assert _libc.madvise(address, 4 * MIB, mmap.MADV_DONTNEED) == 0
    assert content(address, 4 * MIB) == 0
    return {}


def moved():
    """mremap and realloc of memory of which a part was registered."""
    card = Card()
    address = mapped(2 * MIB)
    written_by_a_peer(card, address + PAGE, MIB)
    ctypes.memset(address, 0x55, 2 * MIB)
    address = _libc.mremap(address, 2 * MIB, 8 * MIB, _MREMAP_MAYMOVE)
    assert address != _FAILED, os.strerror(ctypes.get_errno())
    assert content(address, 2 * MIB) == 0x55
    assert content(address + 2 * MIB, 6 * MIB) == 0
    written_by_a_peer(card, address, 8 * MIB)
    chunk = _libc.malloc(MIB)
    written_by_a_peer(card, chunk + 64 * PAGE, 64 * PAGE)
    ctypes.memset(chunk, 0x66, MIB)
    chunk = _libc.realloc(chunk, 16 * MIB)
    assert chunk and content(chunk, MIB) == 0x66
    written_by_a_peer(card, chunk, 16 * MIB)
    _libc.free(chunk)
    return {}


def allocated():
    """The heap of another thread shrinks, the main one is trimmed: calloc's memory is zero."""
    _libc.mallopt(_M_MMAP_THRESHOLD, 32 * MIB)
    _libc.mallopt(_M_TRIM_THRESHOLD, MIB // 8)
    card = Card()
    failures = []

    def work():
        try:
            for _round in range(3):
                chunks = [_libc.malloc(2 * MIB) for _ in range(4)]
                for chunk in chunks:
                    written_by_a_peer(card, chunk, 2 * MIB)
                for chunk in reversed(chunks):
                    _libc.free(chunk)
                _libc.malloc_trim(0)
                fresh = _libc.calloc(1, 8 * MIB)
                assert content(fresh, 8 * MIB) == 0
                _libc.free(fresh)
        except AssertionError as failure:
            failures.append(failure)

    work()
    other = threading.Thread(target=work)
    other.start()
    other.join()
    assert not failures, failures
    return {}


def given_back():
    """Unmapped memory goes back to the system although something else stays registered."""
    card = Card()
    other = mapped(PAGE)
    _region = card.region(other, PAGE, REMOTE)
    with open("/proc/self/maps", encoding="ascii") as maps:
        place = next(line.split()[0] for line in maps if "uroce-memory" in line)
    kept = os.open(f"/proc/self/map_files/{place}", os.O_RDONLY)
    before = os.fstat(kept).st_blocks
    address = mapped(64 * MIB)
    written_by_a_peer(card, address, 64 * MIB)
    shared = os.fstat(kept).st_blocks
    assert _libc.munmap(address, 64 * MIB) == 0
    after = os.fstat(kept).st_blocks
    os.close(kept)
    assert shared - before >= 64 * MIB // 512, (before, shared)
    assert after - before < MIB // 512, (before, after)
    return {"before": before, "shared": shared, "after": after}


def without_hooks():
    """UROCE_HOOKS=none: registering on demand is refused, the card doesn't claim it, and pinned memory works."""
    card = Card()
    address = mapped(MIB)
    assert card.context.query_device_ex().odp_caps.general_caps == 0
    try:
        card.region(address, MIB, ON_DEMAND)
        raise AssertionError("registering on demand wasn't refused")
    except PyverbsRDMAError as refusal:
        assert refusal.error_code == errno.EOPNOTSUPP, refusal
    written_by_a_peer(card, address, MIB)
    with open("/proc/self/maps", encoding="ascii") as maps:
        assert "uroce-memory" not in maps.read(), "private memory was converted"
    return {}


def in_pieces():
    """A region whose pages alternate between two files: more pieces than fit into one record."""
    pages = 1200
    card = Card()
    files = [os.memfd_create(f"pieces{number}") for number in range(2)]
    for file in files:
        os.ftruncate(file, 2 * pages * PAGE)
    address = mapped(pages * PAGE)
    for page in range(pages):
        at = _libc.mmap(address + page * PAGE, PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED,
                        files[page % 2], 2 * page * PAGE)
        assert at == address + page * PAGE, os.strerror(ctypes.get_errno())
    written_by_a_peer(card, address, pages * PAGE)
    return {"pieces": pages}


def main():
    cases = {case.__name__: case for case in (dropped, moved, allocated, given_back, without_hooks, in_pieces)}
    print(json.dumps(cases[sys.argv[1]]()))


if __name__ == "__main__":
    main()
