"""Measures a device's ceilings: the best rates of filling memory, copying memory, and matrix products.

In the child of `measure_in_child`, PyTorch does not interfere with the profiler's use of CUPTI, and its memory and time
do not count as the profiled run's.
"""

import json
import statistics
import subprocess
import sys
from typing import Dict, Iterator, Optional, Tuple

import numpy as np

from ..errors import DeviceError
from ..library import bindings
from ..system import programs
from .machines import open_machine

# Number of bytes to fill and to copy: on a GPU, 17 times the 60 MB L2 cache of an H200; on a CPU, more than most L3
# caches.
_BYTES = {"cpu": 256 << 20, "gpu": 1 << 30}
_ONE = np.ones((1, 1, 1, 1), np.float32)
# Number of rows of the square matrices: 8,192 rows keep every SM of an H200 busy for some 20 ms in float32.
_SIZE = {"cpu": 2048, "gpu": 8192}
_RUNS = 10
_TIMEOUT = 120


def measure(backend: str, device: int = 0) -> Dict[str, float]:
    """Measure a device's ceilings in GB/s and TFLOP/s, as medians of ten runs; a GPU needs PyTorch (DeviceError)."""
    machine = open_machine(backend, device)
    found: Dict[str, float] = {}
    for name, moved, median in _memory(machine):  # the fastest of several ways to fill or to copy counts
        found[f"{name}_gb_s"] = max(found.get(f"{name}_gb_s", 0.0), moved / median / 1e9)
    n = _SIZE[backend]
    matrix = np.random.default_rng(1).random((n, n), dtype=np.float32)
    clock = machine.convolution(_ONE, _ONE, (1, 1)).clock
    for name, a in _matrices(machine, matrix).items():
        clock.time(lambda a=a: a @ a, 1)
        found[f"{name}_tflop_s"] = 2 * n**3 / statistics.median(clock.time(lambda a=a: a @ a, _RUNS)) / 1e12
    return found


def _memory(machine) -> Iterator[Tuple[str, int, float]]:
    """Time the contenders that only fill or copy memory. Yield (name, bytes moved, median time in seconds) of each."""
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
    """Return the rate in TFLOP/s that the known ceilings allow at an intensity in operations per byte, or None."""
    memory = [intensity * value / 1e3 for name, value in ceilings.items() if name.endswith("_gb_s")]
    flat = [value for name, value in ceilings.items() if name.endswith("_tflop_s")]
    return min([*([max(memory)] if memory else []), *([max(flat)] if flat else [])], default=None)


def measure_in_child(backend: str, device: int = 0, threads: int = 0) -> Dict[str, float]:
    """Run `measure` in a separate process, with `threads` threads (0: one per core); DeviceError if that fails."""
    command = [sys.executable, "-m", "fashion_infer.bench.ceilings", backend, str(device), str(threads)]
    try:
        done = programs.run(command, _TIMEOUT, **({"OPENBLAS_NUM_THREADS": str(threads)} if threads else {}))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"the ceilings could not be measured: {error}") from None
    if done.returncode:
        raise DeviceError(programs.last_line(done))
    return json.loads(done.stdout)


def _main() -> None:
    backend, device, threads = sys.argv[1], *map(int, sys.argv[2:])
    try:
        bindings.set_threads(threads)
        print(json.dumps(measure(backend, device)))
    except DeviceError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _main()
