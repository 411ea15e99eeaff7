"""The CPU as a place to benchmark on."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import numpy as np

from ...errors import DeviceError
from ...library import operators
from ..peers import host_peers
from ..rows import LIMIT, Contender
from ..timing import wall_clock


class Host:
    """Tensors in host memory; every contender uses as many threads as the library (`operators.threads()`)."""

    backend = "cpu"
    slow = 2.0  # seconds a run
    default_batch, default_repeat = 1000, 12
    peer_names = tuple(host_peers.PEERS)

    def __init__(self):
        self.threads = operators.threads()
        self._pool = ThreadPoolExecutor(self.threads)
        host_peers.keep_freed_memory()

    def describe(self) -> Tuple[Dict, Dict]:
        """What identifies this machine, and versions."""
        device = {"name": _cpu_name(), "instructions": operators.cpu_isa(), "threads": self.threads}
        return device, {"numpy": np.__version__}

    def load(self, x: np.ndarray, weight: np.ndarray, y_shape) -> None:
        """Take one layer's tensors, both float32, and make room for its output."""
        self.x, self.weight, self.y = x, weight, np.empty(y_shape, np.float32)

    def kernel(self, name: str) -> Contender:
        """A kernel of the library on the loaded layer."""
        return Contender(
            name,
            lambda: operators.convolve(self.x, self.weight, name, out=self.y),
            lambda y, indices: y[indices],
        )

    def poison(self) -> None:
        """Fill the output with NaN."""
        self.y.fill(np.nan)

    def complete(self) -> bool:
        """Whether nothing of the output is NaN."""
        return not np.isnan(self.y.max())

    def limits(self) -> List[Tuple[Contender, int]]:
        """Contenders that only move memory, with the bytes that each moves."""
        spare = np.empty_like(self.y)
        y, to = self.y.ctypes.data, spare.ctypes.data

        def fill():
            self._in_parts(lambda start, size: ctypes.memset(y + start, 0, size))

        def copy():
            self._in_parts(lambda start, size: ctypes.memmove(to + start, y + start, size))
            return spare  # which must live as long as this function

        return [(Contender(LIMIT, fill), self.y.nbytes), (Contender("copy", copy), 2 * self.y.nbytes)]

    def peers(self, name: str) -> List[Contender]:
        """The peer's ways to run the loaded layer; ImportError or DeviceError when it is not to be had."""
        return host_peers.PEERS[name](self.x, self.weight, self.threads)

    def time(self, run, n: int) -> List[float]:
        """Seconds of each of n runs."""
        return wall_clock(run, n)

    def _in_parts(self, call):
        # One thread does not fill the bus: here memory moves in as many as the kernels have, outside Python's lock.
        ends = np.linspace(0, self.y.nbytes, self.threads + 1).astype(int).tolist()
        list(self._pool.map(lambda a, b: call(a, b - a), ends[:-1], ends[1:]))


def available_memory() -> Optional[int]:
    """Bytes of memory that a process can still get without swapping; None where the system does not say."""
    said = _proc("meminfo", "MemAvailable")
    return int(said.split()[0]) * 1024 if said else None


def check_memory(needed: int) -> None:
    """Refuse a batch that could only end with the system killing this process: DeviceError for too many bytes."""
    free = available_memory()
    if free is not None and needed > free:
        raise DeviceError(
            f"this batch needs {needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} GiB are free: "
            "use a smaller --batch"
        )


def _cpu_name():
    return _proc("cpuinfo", "model name") or "CPU"


def _proc(file, key):
    try:
        lines = Path("/proc", file).read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), None)
