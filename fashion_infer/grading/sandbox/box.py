"""The contents of a box (its paths and limits), and the arguments of bubblewrap that create it."""

import contextlib
import os
import re
import secrets
import sys
import sysconfig
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

from .. import inside
from ..inside.landlock import SCOPES_SINCE
from ..inside.seccomp import ALWAYS, NEVER
from .layers import Layers

_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
_DEVICES = ("/dev/null", "/dev/random", "/dev/urandom")  # not /dev/zero: its shared mappings are memory
# Paths in /proc and /sys that a box without a mount namespace may read; Landlock hides everything else in the two.
_KERNEL = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/sys/devices/system/node")
_NOBODY = "65534"
TEMPORARY = "/tmp"
_ADDRESSES = 4 << 30  # address space for compiled code, in bytes
_MANY_ADDRESSES = 32 << 30  # address space for PyTorch and compilers, in bytes
_CAP_SYS_PTRACE = 19
# Tasks that the kernel allows in addition to the box's limit: bubblewrap's own tasks, and some so that the referee can
# see that the box has too many.
_MORE_TASKS = 8


class Limits(NamedTuple):
    seconds: float  # wall-clock time from start to end, without the time during which the box is stopped
    memory: int  # bytes, without the tensors
    disk: int  # bytes of its temporary files
    printed: int  # bytes of its printed output
    threads: int = 1024
    files: int = 64  # open descriptors


class Box(NamedTuple):
    limits: Limits
    read: Tuple[str, ...] = ()  # files and folders that it may read
    write: Tuple[str, ...] = ()  # files and folders that it may also change
    devices: Tuple[str, ...] = ()  # device nodes that it may open
    processes: str = NEVER  # when it may start other processes: NEVER, ASKING or ALWAYS
    gpu: bool = False  # whether it uses CUDA, which needs more: Unix sockets, files in memory, descriptors
    memory_files: bool = False  # whether it may create files in memory
    shared: int = 0  # bytes of tensors that it maps in addition to its own memory
    library_path: str = ""  # folders that the loader searches first


def python() -> Tuple[str, ...]:
    executable = os.path.realpath(sys.executable)
    paths = sysconfig.get_paths(vars={"base": sys.base_prefix, "platbase": sys.base_exec_prefix})
    library = sysconfig.get_config_var("LIBDIR")
    shared = [str(file) for file in Path(library or "/nowhere").glob("libpython*.so*")]
    ours = str(Path(inside.__file__).parent), inside.abi.__file__
    return (executable, paths["stdlib"], paths["platstdlib"], *shared, *ours)


def existing(box: Box) -> List[str]:
    places: List[str] = []
    for path in sorted({*_LIBRARIES, *python(), *box.read}, key=len):
        if os.path.exists(path) and not any(path.startswith(f"{place}/") for place in places):
            places.append(path)
    return sorted(places)


def bubblewrap(path: str, box: Box, info: int) -> List[str]:
    """Return the command of bubblewrap that creates the namespaces; the caller appends the command to run in the box.
    Bubblewrap writes the number of the box's first process to the descriptor `info`."""
    words = [path, "--unshare-all", "--unshare-user", "--uid", _NOBODY, "--gid", _NOBODY, "--hostname", "sandbox",
             "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv", "--info-fd", str(info),
             "--size", str(box.limits.disk), "--tmpfs", TEMPORARY, "--proc", "/proc"]  # fmt: skip
    for place in existing(box):
        words += _shown(place)
    for place in box.write:
        words += ["--bind", place, place]
    for device in (*_DEVICES, *box.devices):
        words += ["--dev-bind", device, device]
    for place in ("/sys/devices/system", *(["/sys"] if box.gpu else [])):
        words += ["--ro-bind-try", place, place]
    words += ["--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", TEMPORARY, "--setenv", "LC_ALL", "C"]
    if box.library_path:
        words += ["--setenv", "LD_LIBRARY_PATH", box.library_path]
    return [*words, "--remount-ro", "/", "--chdir", TEMPORARY, "--"]


def _shown(place: str) -> List[str]:
    top = Path(place)
    if top.is_symlink() and len(top.parts) == 2:  # /lib -> usr/lib
        return ["--symlink", os.readlink(place), place]
    return ["--ro-bind", place, place]


def plan(box: Box, layers: Layers) -> Dict[str, Any]:
    """Return the restrictions that the worker or command in the box applies to itself (see `inside.confine`)."""
    namespaces = layers.bubblewrap is not None
    # With CUDA, the limit on file sizes is that of memory, because CUDA creates files in memory.
    largest = box.limits.memory if box.gpu else max(box.limits.disk, 1 << 20)
    limits = {"CORE": 0, "FSIZE": largest, "NOFILE": 4096 if box.gpu else box.limits.files}
    # Limit CPU time, too, for processes that escape the limit on wall-clock time. It allows the use of all cores for as
    # long as the wall-clock limit.
    limits["CPU"] = int(box.limits.seconds * (os.cpu_count() or 1)) + 5
    if not box.gpu:  # CUDA reserves huge ranges of addresses
        limits["DATA"] = box.limits.memory + (1 << 30)
        # Limit the address space, because page tables take memory: 1/512 of the addresses that are used. Each thread's
        # allocator reserves 128 MiB of addresses.
        room = _ADDRESSES if box.processes == NEVER else _MANY_ADDRESSES
        limits["AS"] = box.limits.memory + box.shared + room + (os.cpu_count() or 1) * (128 << 20)
    user = 0 if namespaces or not layers.landlock or box.write or box.gpu else _fresh_user()
    if user or os.geteuid() != 0:
        others = 0 if user or (namespaces and _counted_apart()) else _tasks_of_user()
        limits["NPROC"] = box.limits.threads + _MORE_TASKS + others
    kernel = ("/proc", "/sys") if namespaces else (*_KERNEL, *(("/proc/driver", "/sys") if box.gpu else ()))
    return {
        "limits": limits,
        "user": user,
        "read": [*existing(box), *kernel],
        # CUDA writes the names of its threads to /proc/self/task, and fails if it cannot.
        "write": [*([TEMPORARY] if namespaces else []), *box.write, *(["/proc/self/task"] if box.gpu else [])],
        "devices": [*_DEVICES, *box.devices],
        "rules": [
            box.processes,
            # Unix sockets are allowed only if they cannot reach abstract sockets of the host.
            box.gpu and (namespaces or layers.landlock >= SCOPES_SINCE),
            box.gpu or box.memory_files,
            box.gpu or box.processes == ALWAYS,  # shared memory; linkers write their output to it
        ],
        "landlock": bool(layers.landlock),
        "seccomp": layers.seccomp,
    }


def _fresh_user() -> int:
    """Return the number of a user without tasks, for a box of root, whose tasks the kernel does not limit; else 0. The
    process sets only its real user to it, by which the kernel counts tasks; files are opened with the same rights. 0
    without CAP_SYS_PTRACE, which the referee then needs to inspect memory."""
    if os.geteuid() != 0:
        return 0
    (capabilities,) = re.findall(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())
    return 1 << 30 | secrets.randbits(29) if int(capabilities, 16) >> _CAP_SYS_PTRACE & 1 else 0


def _counted_apart() -> bool:
    """Return whether RLIMIT_NPROC counts the tasks of each user namespace separately, as Linux does since 5.14."""
    return tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2]) >= (5, 14)


def _tasks_of_user() -> int:
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            about = os.stat(f"/proc/{name}/task")
            count += about.st_nlink - 2 if about.st_uid == os.getuid() else 0
    return count
