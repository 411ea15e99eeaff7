"""Landlock, used through system calls: restricts the files that a process may use, and prevents TCP connections."""

import ctypes
import os
import stat
from typing import Sequence, Tuple

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on every architecture
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_NETWORK = 3  # binding and connecting of TCP sockets
SCOPES_SINCE = 6  # the first version of Landlock's interface that has scopes
_SCOPES = 3  # scopes by which abstract Unix sockets and signals reach only processes that are confined as well


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # implied by `_pack_`; Python 3.14 requires it
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc


def version() -> int:
    return max(0, _libc().syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION))


def restrict(read: Sequence[str], write: Sequence[str], devices: Sequence[str]) -> int:
    """Restrict this process, which may gain no privileges (no_new_privs), and all that it starts, to parts of the file
    system; missing paths are ignored. Return the version of the interface that is in force, 0 if the kernel has no
    Landlock; OSError if it refuses."""
    known = version()
    if known == 0:
        return 0
    everything, size = _everything(known)
    ruleset = _Ruleset(everything, _NETWORK if known >= 4 else 0, _SCOPES if known >= SCOPES_SINCE else 0)
    handle = _checked(_libc().syscall(_CREATE, ctypes.byref(ruleset), ctypes.c_size_t(size), 0))
    try:
        for paths, allowed in ((read, _READ), (write, everything), (devices, _READ_FILE | _WRITE_FILE | _IOCTL)):
            for path in paths:
                _allow(handle, path, allowed & everything)
        _checked(_libc().syscall(_RESTRICT, handle, 0))
    finally:
        os.close(handle)
    return known


def _everything(known: int) -> Tuple[int, int]:
    bits = (1 << 13) - 1
    for since, bit in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL)):
        bits |= bit if known >= since else 0
    return bits, 24 if known >= SCOPES_SINCE else 16 if known >= 4 else 8


def _allow(handle: int, path: str, allowed: int) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            allowed &= _OF_FILES
        rule = _Beneath(allowed, folder)
        _checked(_libc().syscall(_ADD, handle, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(folder)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
