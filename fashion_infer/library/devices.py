"""The CUDA devices that the library can use."""

from typing import List, NamedTuple, Tuple

from ..errors import DeviceError
from . import bindings
from .bindings import check, load


class CudaDevice(NamedTuple):
    """A CUDA device that the library can use. Memory is in bytes."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which a device does not need
    name: str
    capability: Tuple[int, int]
    multiprocessors: int
    memory_total: int
    memory_free: int
    driver_version: str
    runtime_version: str


def cuda_devices() -> List[CudaDevice]:
    """Return the CUDA devices that the library can use; DeviceError, which says why, if there is none."""
    count = bindings.Int()
    check(load().fops_device_count(count))
    devices = []
    for index in range(count.value):
        info = bindings.DeviceInfo()
        check(load().fops_device_describe(index, info))
        devices.append(
            CudaDevice(
                index,
                info.name.decode(errors="replace"),
                (info.major, info.minor),
                info.multiprocessors,
                info.memory_total,
                info.memory_free,
                _version(info.driver_version),
                _version(info.runtime_version),
            )
        )
    return devices


def cuda_device(index: int) -> CudaDevice:
    found = cuda_devices()
    if not 0 <= index < len(found):
        raise DeviceError(f"there is no GPU {index}: this machine has {len(found)}, numbered from 0")
    return found[index]


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
