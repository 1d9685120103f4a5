"""A program whose plugin loads libibverbs into a namespace of its own (dlmopen): the library then has another libc than the
program, and sees neither its forks nor what it drops."""

import ctypes
import mmap
import os

_NEW_NAMESPACE = -1  # LM_ID_NEWLM
_BYTES = 65536
_LOCAL_WRITE = 1

_loader = ctypes.CDLL(None)
_loader.dlmopen.restype = _loader.dlsym.restype = ctypes.c_void_p
_loader.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_library = _loader.dlmopen(_NEW_NAMESPACE, b"libibverbs.so.1", os.RTLD_NOW)
assert _library, "libibverbs can't be loaded into a namespace of its own"


def _verb(name, *arguments):
    address = _loader.dlsym(_library, name)
    return ctypes.CFUNCTYPE(ctypes.c_void_p, *arguments)(address)


def main():
    devices = ctypes.cast(_verb(b"ibv_get_device_list", ctypes.c_void_p)(None), ctypes.POINTER(ctypes.c_void_p))
    context = _verb(b"ibv_open_device", ctypes.c_void_p)(devices[0])
    domain = _verb(b"ibv_alloc_pd", ctypes.c_void_p)(context)
    memory = mmap.mmap(-1, _BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = b"\x07" * _BYTES
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    register = _verb(b"ibv_reg_mr", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    assert register(domain, start, _BYTES, _LOCAL_WRITE), "memory isn't registered"
    child = os.fork()
    if child == 0:
        memory[:] = b"\x09" * _BYTES
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "the child failed"
    assert memory[0] == 7, "a child has written into its parent's memory"
    memory.madvise(mmap.MADV_DONTNEED)
    assert memory[0] == 0, "dropped memory (MADV_DONTNEED) has kept its contents"
    os._exit(0)  # the library's own libc doesn't see this one's exit


main()
