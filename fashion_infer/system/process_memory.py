"""Device memory of this process, without that of other programs, as the driver reports it (NVML)."""

import ctypes
import os
from typing import List, NamedTuple, Optional

_UNKNOWN = 2**64 - 1  # the driver returns this if it does not know a process's memory
_MOST = 1024  # largest number of processes on a device


class _Process(ctypes.Structure):
    """`nvmlProcessInfo_t`, as nvmlDeviceGetComputeRunningProcesses_v3 fills it."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class ListedProcess(NamedTuple):
    pid: int
    used: int  # bytes


def own() -> Optional[int]:
    """Return the bytes of device memory that this process uses, on all devices; None if the driver does not say.

    That is so without NVML, and in a container with other process numbers, unless only one process is listed.
    """
    try:
        listed = _listed()
    except (OSError, AttributeError):
        return None
    found = [one.used for one in listed if one.pid == os.getpid()] or [one.used for one in listed if len(listed) == 1]
    return sum(found) if found and _UNKNOWN not in found else None


def _listed() -> List[ListedProcess]:
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    if nvml.nvmlInit_v2():
        return []
    try:
        count, found = ctypes.c_uint(), []
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for index in range(count.value):
            device, number, processes = ctypes.c_void_p(), ctypes.c_uint(_MOST), (_Process * _MOST)()
            if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
                continue
            if not nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(number), processes):
                found += [ListedProcess(one.pid, one.used) for one in processes[: number.value]]
        return found
    finally:
        nvml.nvmlShutdown()
