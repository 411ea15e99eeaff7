"""The conditions of a try: changes to its process before the program starts.

Only the standard library is used, because conditions are applied in a process just before the program starts in it.
"""

import ctypes
import os
import resource
import sys

_UNKNOWN_USER = 61234  # a user id without a passwd entry
_CAPABILITIES = {"DAC_OVERRIDE": 1, "DAC_READ_SEARCH": 2}
_KEEP_CAPABILITIES = 8  # PR_SET_KEEPCAPS
_AMBIENT, _RAISE = 47, 2  # PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE
_SECUREBITS, _NO_ROOT = 28, 1  # PR_SET_SECUREBITS, SECBIT_NOROOT: a program that root starts gets no more capabilities
_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3


def apply(condition: str) -> None:
    name, _, value = condition.partition("=")
    _ALL[name](value)


def needs_root(condition: str) -> bool:
    return condition.partition("=")[0] == "homeless"


def closed(value: str) -> None:
    """@closed=0, @closed=1 or @closed=2: close this standard stream."""
    os.close(int(value))


def full(value: str) -> None:
    """@full=1 or @full=2: connect this standard stream to /dev/full, on which every write fails for lack of space."""
    _redirect("/dev/full", int(value))


def gone(value: str) -> None:
    """@gone=1 or @gone=2: connect this standard stream to a pipe that has no reader."""
    read, write = os.pipe()
    os.close(read)
    os.dup2(write, int(value))
    os.close(write)


def deleted(_value: str) -> None:
    """@deleted: make a folder the working folder, and delete it."""
    os.mkdir("deleted")
    os.chdir("deleted")
    os.rmdir("../deleted")


def homeless(_value: str) -> None:
    """@homeless: become a user without a home folder and passwd entry, who can read and write all that root can."""
    os.environ.pop("HOME", None)
    os.environ.pop("XDG_CACHE_HOME", None)
    _become_unknown()


def plain(_value: str) -> None:
    """@plain: take root's capabilities away, so that permissions of files also apply to root."""
    if os.getuid() == 0:
        ctypes.CDLL(None, use_errno=True).prctl(_SECUREBITS, _NO_ROOT, 0, 0, 0)
        _set_capabilities(())


def memory(value: str) -> None:
    """@memory=MB: limit memory as `ulimit -v` does."""
    size = int(value) << 20
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def file_size(value: str) -> None:
    """@file-size=BYTES: limit the size of files as `ulimit -f` does."""
    # Otherwise Python could leave a module's bytecode truncated, and later processes could not import that module.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(value), int(value)))


def files(value: str) -> None:
    """@files=N: limit the number of open files as `ulimit -n` does."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(value), int(value)))


_ALL = {
    "closed": closed,
    "full": full,
    "gone": gone,
    "deleted": deleted,
    "homeless": homeless,
    "plain": plain,
    "memory": memory,
    "file-size": file_size,
    "files": files,
}


def _redirect(path: str, number: int) -> None:
    handle = os.open(path, os.O_WRONLY)
    os.dup2(handle, number)
    os.close(handle)


def _become_unknown() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_KEEP_CAPABILITIES, 1, 0, 0, 0)
    os.setresgid(_UNKNOWN_USER, _UNKNOWN_USER, _UNKNOWN_USER)
    os.setresuid(_UNKNOWN_USER, _UNKNOWN_USER, _UNKNOWN_USER)
    _set_capabilities(_CAPABILITIES.values())
    for number in _CAPABILITIES.values():  # a program started by exec keeps these capabilities
        libc.prctl(_AMBIENT, _RAISE, number, 0, 0)


def _set_capabilities(numbers) -> None:
    bits = sum(1 << number for number in numbers)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    # The effective, permitted and inheritable sets of capabilities 0 to 31, then those of the others, which are empty.
    data = (ctypes.c_uint32 * 6)(bits, bits, bits, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")
