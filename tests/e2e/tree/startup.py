"""Reproduces the calls that NCCL, Mooncake and Gloo make at startup, without their hardware, with libc's own functions.

Prints a line for each device that all of them would accept; fails with a sentence at the first call that would stop them.
"""

import ctypes
import os
import stat
import sys

_PATH_MAX = 4096
_DEVICES = "/sys/class/infiniband"
# NCCL's and Gloo's tables: what they look up by name and version.
_SYMBOLS = {
    "IBVERBS_1.1": ("ibv_get_device_list", "ibv_free_device_list", "ibv_get_device_name", "ibv_open_device", "ibv_close_device",
                    "ibv_get_async_event", "ibv_ack_async_event", "ibv_query_device", "ibv_query_port", "ibv_query_gid", "ibv_query_qp",
                    "ibv_alloc_pd", "ibv_dealloc_pd", "ibv_reg_mr", "ibv_dereg_mr", "ibv_create_cq", "ibv_destroy_cq", "ibv_create_qp",
                    "ibv_modify_qp", "ibv_destroy_qp", "ibv_fork_init", "ibv_event_type_str"),
    "IBVERBS_1.8": ("ibv_reg_mr_iova2",),
    "IBVERBS_1.10": ("ibv_query_ece", "ibv_set_ece"),
    "IBVERBS_1.12": ("ibv_reg_dmabuf_mr",),
}

_process = ctypes.CDLL(None, use_errno=True)
_process.dlvsym.restype = ctypes.c_void_p
_process.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
_process.realpath.restype = ctypes.c_char_p
_process.fopen.restype = ctypes.c_void_p
_process.fgets.restype = ctypes.c_char_p
_process.fgets.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]


def _expect(good, what):
    if not good:
        sys.exit(what)


def _real(path):
    room = ctypes.create_string_buffer(_PATH_MAX)
    real = _process.realpath(path.encode(), room)
    _expect(real, f"{path} leads nowhere: {os.strerror(ctypes.get_errno())}")
    return real.decode()


def _first_line(path):
    """The file's text as fopen and fgets read it; empty if it doesn't exist."""
    file = _process.fopen(path.encode(), b"r")
    room = ctypes.create_string_buffer(_PATH_MAX)
    return _process.fgets(room, _PATH_MAX, file).decode() if file else None


def _symbols():
    library = ctypes.CDLL("libibverbs.so")  # NCCL's first choice; it must be the same one
    _expect(library._handle == ctypes.CDLL("libibverbs.so.1")._handle, "libibverbs.so is another library than libibverbs.so.1")
    for version, names in _SYMBOLS.items():
        for name in names:
            _expect(_process.dlvsym(library._handle, name.encode(), version.encode()), f"no {name}@{version}")


def _nccl(device):
    """The device's PCI path, and which GIDs are RoCE v2: an unreadable entry is an error there."""
    function = _real(f"{_DEVICES}/{device}/device")
    for name in ("vendor", "device", "class", "numa_node"):
        _expect(_first_line(f"{function}/{name}"), f"no {function}/{name}")
    types = f"{_DEVICES}/{device}/ports/1/gid_attrs/types"
    for index in os.listdir(types):
        _expect(_first_line(f"{types}/{index}") == "RoCE v2\n", f"{types}/{index} isn't RoCE v2")
    return function


def _mooncake(device):
    """The same PCI path found by another link, and a character device that the program may open."""
    node = f"/dev/infiniband/{device}"
    descriptor = os.open(node, os.O_RDWR | os.O_CLOEXEC)
    _expect(stat.S_ISCHR(os.stat(node).st_mode) and stat.S_ISCHR(os.fstat(descriptor).st_mode), f"{node} is no character device")
    os.close(descriptor)
    return _real(f"{_DEVICES}/{device}/../..")


def main():
    _symbols()
    _first_line("/proc/modules")  # Gloo looks for nv_peer_mem there, and goes on without it, or without the file
    for device in os.listdir(_DEVICES):
        function = _nccl(device)
        other_way = _mooncake(device)
        _expect(function == other_way, f"{function} and {other_way} aren't the same")
        print(device, function)


if __name__ == "__main__":
    main()
