"""A GPU for the referee: its device nodes for a sandbox, its memory, and checks that it still works properly."""

import ctypes
import os
import re
import time
from pathlib import Path
from typing import Any, Dict, Optional, Sequence, Tuple

import numpy as np

from ...errors import DeviceError
from ...judging import judge
from ...library import devices, kernels
from ..inside import driver
from ..referee.memory import Place
from ..referee.tensors import NO_LAG, Lag
from ..sandbox import Box
from . import lag
from .tensors import DeviceTensors, filled, free_memory

_COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
_BACK = 64 << 20  # number of bytes of device memory that may still be occupied after a submission
_WAIT = 5.0  # time limit in seconds for the driver to release the memory of a killed process
_SLOWER = 1.5  # largest time of a fill, divided by its time before the first submission
_TRIES = 5  # number of fills, of which the fastest counts
_PROBED = 256 << 20  # number of bytes of a fill, whose time shows the device's speed


class Gpu:
    """A GPU, by the operator library's index. This process holds its primary context; DeviceError if it has none."""

    def __init__(self, index: int):
        found = devices.cuda_device(index)
        try:
            self._device = driver.begin(index)
            self._nodes, self._libraries = _nodes(self._device), _libraries()
            self._scratch = _allocated(max(_PROBED, 2 * driver.l2_bytes(self._device)))
        except (OSError, driver.DriverError) as error:
            raise DeviceError(f"GPU {index} cannot be used for grading: {error}") from None
        self._index, self._facts = index, found
        rng = np.random.default_rng(0)
        self._x = rng.integers(0, 256, (8, 1, 28, 28)).astype(np.float32)
        self._k = rng.standard_normal((50, 1, 5, 5)).astype(np.float32)
        self._known()  # the first call includes one-time costs, so only the second one is measured
        self._first = self._known()
        self._free = free_memory()
        self._lag: Optional[Lag] = None

    def shown(self, box: Box) -> Box:
        return box._replace(
            devices=(*box.devices, *self._nodes),
            read=(*box.read, *self._libraries),
            gpu=True,
            library_path=":".join(dict.fromkeys(str(Path(file).parent) for file in self._libraries)),
        )

    def lag(self, machine: Any) -> Lag:
        """Return the overhead of a bracket in the machine's sandbox. It is measured once, in the first call."""
        if self._lag is None:
            self._lag = lag.measured(self, machine)
        return self._lag

    def tensors(self, places: Sequence[Place], beside: Lag = NO_LAG) -> DeviceTensors:
        return DeviceTensors(self._device, places, self._scratch, beside)

    def described(self) -> Dict[str, Any]:
        return {
            "gpu": self._facts.name,
            "capability": ".".join(map(str, self._facts.capability)),
            "driver": self._facts.driver_version,
            "memory": self._facts.memory_total,
        }

    def ill(self) -> Optional[str]:
        """Return the reason why the GPU does not work properly after a submission; None if it works properly. It does
        if its memory is free again, a kernel of ours gives correct results, and a fill takes the usual time."""
        end = time.monotonic() + _WAIT
        while True:
            try:
                free, known = free_memory(), self._known()
            except (driver.DriverError, DeviceError) as error:
                return str(error)
            if self._free - free <= _BACK and known <= _SLOWER * self._first:
                return None
            if time.monotonic() > end:
                break
            time.sleep(0.2)
        if self._free - free > _BACK:
            return f"{(self._free - free) >> 20:,} MiB of its memory were not freed"
        return f"filling its memory takes {known / self._first:.1f} times as long as before"

    def _known(self) -> float:
        found = kernels.convolve(self._x, self._k, backend="gpu", device=self._index)
        if not judge.outputs("", found, self._x, self._k, "float32").right:
            raise DeviceError("a kernel of our library gives wrong results, but gave correct results before")
        driver.synchronize()
        return min(filled(self._scratch, 0, _PROBED // 4) for _ in range(_TRIES))


def _allocated(size: int) -> int:
    address = ctypes.c_ulonglong()
    driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    return address.value


def _nodes(device: int) -> Tuple[str, ...]:
    """Return the device nodes that a GPU needs. The number of the GPU's own node is the minor number that the driver
    lists for the GPU's bus address."""
    place = ctypes.create_string_buffer(32)
    driver.call("cuDeviceGetPCIBusId", place, 32, device)
    file = Path("/proc/driver/nvidia/gpus") / place.value.decode().lower() / "information"
    try:
        minor = re.search(r"Device Minor:\s*(\d+)", file.read_text())
    except OSError:
        minor = None
    own = [f"/dev/nvidia{minor.group(1)}"] if minor else sorted(map(str, Path("/dev").glob("nvidia[0-9]*")))
    if len(own) != 1:
        raise DeviceError("cannot find out which device node belongs to this GPU")
    return tuple(path for path in (*own, *_COMMON) if os.path.exists(path))


def _libraries() -> Tuple[str, ...]:
    driver.library()
    lines = Path("/proc/self/maps").read_text().splitlines()
    loaded = sorted({line.split(None, 5)[5] for line in lines if "libcuda.so" in line or "libnvidia-" in line})
    folders = {Path(file).parent for file in loaded}
    names = "libcuda.so*", "libnvidia-*.so*"
    return tuple(sorted({str(file) for folder in folders for name in names for file in folder.glob(name)}))
