"""Measured ceilings of a device: fill, copy, and matrix products.

Run as a program, `python -m fashion_infer.bench.ceilings BACKEND DEVICE THREADS`, it prints them as one JSON
object. In a process of its own PyTorch neither meets the profiler's CUPTI nor counts among the run's memory and time.
"""

import json
import statistics
import subprocess
import sys
from typing import Dict, Iterator, Optional, Tuple

import numpy as np

from ..errors import DeviceError
from ..library import thread_pool
from ..system import child_process
from .machines import open_machine

# Bytes filled and copied: 17 times the 60 MB second-level cache of an H200; on a CPU beyond most third-level caches.
_BYTES = {"cpu": 256 << 20, "gpu": 1 << 30}
_ONE = np.ones((1, 1, 1, 1), np.float32)
# Rows of the square matrices: 8,192 keep every SM of an H200 busy for some 20 ms in float32.
_SIZE = {"cpu": 2048, "gpu": 8192}
_RUNS = 10
_TIMEOUT = 120


def measure(backend: str, device: int = 0) -> Dict[str, float]:
    """Medians of ten runs.

    Returns
    -------
    dict
        fill_gb_s and copy_gb_s in 10^9 bytes a second (a copy's bytes read and written both count), fp32_tflop_s in
        10^12 operations a second; on a GPU fp16_tflop_s too, a matrix product in half precision on the tensor cores.

    Raises
    ------
    DeviceError
        Without that device, or on a GPU without PyTorch or CuPy.
    """
    machine = open_machine(backend, device)  # the benchmarks' own: it knows how to time both kinds of device
    found: Dict[str, float] = {}
    for name, moved, median in _memory(machine):  # several ways to fill and to copy: the fastest of each counts
        found[f"{name}_gb_s"] = max(found.get(f"{name}_gb_s", 0.0), moved / median / 1e9)
    n = _SIZE[backend]
    matrix = np.random.default_rng(1).random((n, n), dtype=np.float32)
    clock = machine.convolution(_ONE, _ONE, (1, 1)).clock
    for name, a in _matrices(machine, matrix).items():
        clock.time(lambda a=a: a @ a, 1)
        found[f"{name}_tflop_s"] = 2 * n**3 / statistics.median(clock.time(lambda a=a: a @ a, _RUNS)) / 1e12
    return found


def _memory(machine) -> Iterator[Tuple[str, int, float]]:
    """Contenders that only move memory: name, bytes moved, and median in seconds."""
    work = machine.convolution(_ONE, _ONE, (_BYTES[machine.backend] // 4096, 1024))
    for contender, moved in work.limits():
        work.clock.time(contender.run, 1)
        yield contender.name, moved, statistics.median(work.clock.time(contender.run, _RUNS))


def _matrices(machine, matrix: np.ndarray) -> Dict:
    if machine.backend == "cpu":
        return {"fp32": matrix}
    tensors = machine.tensors
    return {"fp32": tensors.put(matrix), "fp16": tensors.put(matrix.astype(np.float16))}


def roof(intensity: float, ceilings: Dict[str, float]) -> Optional[float]:
    """TFLOP/s that the ceilings allow at an arithmetic intensity (operations a byte).

    It is the lower of the best memory's and the best matrix product's; None where neither was measured.
    """
    memory = [intensity * value / 1e3 for name, value in ceilings.items() if name.endswith("_gb_s")]
    flat = [value for name, value in ceilings.items() if name.endswith("_tflop_s")]
    return min([*([max(memory)] if memory else []), *([max(flat)] if flat else [])], default=None)


def measured_apart(backend: str, device: int = 0, threads: int = 0) -> Dict[str, float]:
    """`measure` in a process of its own, on a CPU with so many threads (0: the cores it may use).

    Raises
    ------
    DeviceError
        With that process's reason.
    """
    command = [sys.executable, "-m", "fashion_infer.bench.ceilings", backend, str(device), str(threads)]
    try:
        done = child_process.run(command, _TIMEOUT, **({"OPENBLAS_NUM_THREADS": str(threads)} if threads else {}))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"the ceilings could not be measured: {error}") from None
    if done.returncode:
        raise DeviceError(child_process.last_line(done))
    return json.loads(done.stdout)


def _main() -> None:
    backend, device, threads = sys.argv[1], *map(int, sys.argv[2:])
    try:
        thread_pool.resize(threads)
        print(json.dumps(measure(backend, device)))
    except DeviceError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _main()
