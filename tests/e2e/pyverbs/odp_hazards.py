"""A program that misuses its ODP memory, one hazard per run, with pyverbs: `odp_hazards.py truncate`, and so on.

Prints what it measured as JSON; anything that isn't as it should be raises."""

import ctypes
import json
import mmap
import os
import signal
import sys
import tempfile
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

PAGE = 4096
GID_INDEX = 1
REMOTE = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ)
ON_DEMAND = REMOTE | e.IBV_ACCESS_ON_DEMAND
WAIT_SECONDS_MAX = 30


class Card:
    def __init__(self):
        self.context = Context(name="uroce0")
        self.pd = PD(self.context)

    def region(self, address, length, access):
        return MR(self.pd, length, access, address=address)


class End:
    """A queue pair with its completion queue."""

    def __init__(self, card):
        self.card = card
        self.cq = CQ(card.context, 64)
        attributes = QPAttr(port_num=1)
        attributes.qp_access_flags = REMOTE
        self.qp = QP(card.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, sq_sig_all=1,
                                         cap=QPCap(max_send_wr=32, max_recv_wr=1)), attributes)

    def connect(self, number):
        attributes = QPAttr(port_num=1)
        attributes.dest_qp_num = number
        attributes.path_mtu = e.IBV_MTU_1024
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 1
        attributes.min_rnr_timer = 12
        attributes.timeout, attributes.retry_cnt, attributes.rnr_retry = 14, 7, 7
        route = GlobalRoute(dgid=self.card.context.query_gid(1, GID_INDEX), sgid_index=GID_INDEX)
        attributes.ah_attr = AHAttr(gr=route, is_global=1, port_num=1)
        self.qp.to_rts(attributes)

    def request(self, opcode, local, length, rkey, remote, offset=0):
        work = SendWR(opcode=opcode, num_sge=1, sg=[SGE(local.buf + offset, length, local.lkey)])
        work.set_wr_rdma(rkey, remote)
        self.qp.post_send(work)

    def completion(self):
        until = time.monotonic() + WAIT_SECONDS_MAX
        while time.monotonic() < until:
            count, completions = self.cq.poll(1)
            if count:
                return completions[0].status
            time.sleep(0)
        raise TimeoutError("no completion")

    def expect_success(self, *request, **options):
        self.request(*request, **options)
        status = self.completion()
        assert status == e.IBV_WC_SUCCESS, status


def connected_pair(card):
    one, other = End(card), End(card)
    one.connect(other.qp.qp_num)
    other.connect(one.qp.qp_num)
    return one, other


def address_of(mapping):
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def source(card, length=1 << 20):
    mapping = mmap.mmap(-1, length)
    mapping.write(bytes(range(256)) * (length // 256))
    return mapping, card.region(address_of(mapping), length, e.IBV_ACCESS_LOCAL_WRITE)


def truncate():
    """A file is truncated while a peer writes to all of it: an error completion, and everything else works on."""
    card = Card()
    _kept, local = source(card)
    with tempfile.TemporaryFile() as file:
        pages = 64
        file.truncate(pages * PAGE)
        memory = mmap.mmap(file.fileno(), pages * PAGE)
        start = address_of(memory)
        region = card.region(start, pages * PAGE, ON_DEMAND)
        one, _other = connected_pair(card)
        for page in range(pages):
            one.expect_success(e.IBV_WR_RDMA_WRITE, local, PAGE, region.rkey, start + page * PAGE)
        file.truncate(8 * PAGE)
        one.request(e.IBV_WR_RDMA_WRITE, local, PAGE, region.rkey, start + 40 * PAGE)
        status = one.completion()
        assert status == e.IBV_WC_REM_OP_ERR, status
        again, _other = connected_pair(card)
        again.expect_success(e.IBV_WR_RDMA_WRITE, local, PAGE, region.rkey, start + 2 * PAGE, offset=1)
        assert memory[2 * PAGE] == 1
    return {"status": int(status)}


def stopped():
    """A program is stopped before its peer's first WRITE, which fails after a while; other programs aren't affected."""
    to_child, to_parent = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        card = Card()
        end = End(card)
        memory = mmap.mmap(-1, 1 << 20)
        region = card.region(address_of(memory), 1 << 20, ON_DEMAND)
        os.write(to_parent[1], json.dumps([end.qp.qp_num, region.rkey, region.buf]).encode())
        end.connect(int(os.read(to_child[0], 100)))
        os.write(to_parent[1], b"!")
        os.read(to_child[0], 1)
        os._exit(0)
    try:
        card = Card()
        _kept, local = source(card)
        end = End(card)
        number, rkey, address = json.loads(os.read(to_parent[0], 1000))
        end.connect(number)
        os.write(to_child[1], str(end.qp.qp_num).encode())
        os.read(to_parent[0], 1)
        os.kill(child, signal.SIGSTOP)
        os.waitpid(child, os.WUNTRACED)
        start = time.monotonic()
        end.request(e.IBV_WR_RDMA_WRITE, local, 64, rkey, address)
        fresh = mmap.mmap(-1, 4 << 20)
        region = card.region(address_of(fresh), 4 << 20, ON_DEMAND)
        one, _other = connected_pair(card)
        for page in range(1024):
            one.expect_success(e.IBV_WR_RDMA_WRITE, local, 64, region.rkey, region.buf + page * PAGE)
        assert end.cq.poll(1)[0] == 0, "the stopped program's peer was to wait, and this one was not"
        status = end.completion()
        waited = time.monotonic() - start
        assert status == e.IBV_WC_REM_OP_ERR, status
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return {"status": int(status), "waited_s": waited}


def limit():
    """A region of 64 GiB, of which more is written than may be resident; no data is lost."""
    card = Card()
    kept, local = source(card)
    length, step, pieces = 64 << 30, 512 << 20, 128
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    start = libc.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE,
                      mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)  # MAP_NORESERVE
    assert start != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
    region = card.region(start, length, ON_DEMAND)
    one, _other = connected_pair(card)
    for piece in range(pieces):
        one.expect_success(e.IBV_WR_RDMA_WRITE, local, len(kept), region.rkey, start + piece * step)
    whole = kept[:]
    for piece in range(pieces):
        assert ctypes.string_at(start + piece * step, len(kept)) == whole, piece
    print(json.dumps({"written": pieces * len(kept)}), flush=True)
    sys.stdin.read(1)  # until the resident pages have been counted
    return {}


def advise():
    """Prefetching unmapped memory, or for regions that aren't on demand, is refused."""
    card = Card()
    memory, pinned = source(card)
    region = card.region(address_of(memory), len(memory), ON_DEMAND)
    outcomes = {}
    cases = {"good": SGE(region.buf, PAGE, region.lkey),
             "not on demand": SGE(pinned.buf, PAGE, pinned.lkey),
             "beyond the region": SGE(region.buf + len(memory), PAGE, region.lkey),
             "no such key": SGE(region.buf, PAGE, region.lkey ^ 0x5500)}
    for name, entry in cases.items():
        try:
            card.pd.advise_mr(e._IBV_ADVISE_MR_ADVICE_PREFETCH, e._IBV_ADVISE_MR_FLAG_FLUSH, [entry])
            outcomes[name] = 0
        except PyverbsRDMAError as refusal:
            outcomes[name] = refusal.error_code
    return outcomes


def main():
    hazards = {hazard.__name__: hazard for hazard in (truncate, stopped, limit, advise)}
    print(json.dumps(hazards[sys.argv[1]]()))


if __name__ == "__main__":
    main()
