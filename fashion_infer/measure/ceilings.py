"""What a device can do at most, measured: fill, copy, and matrix products.

Run as a program, `python -m fashion_infer.measure.ceilings BACKEND DEVICE THREADS`, it prints them as one JSON
object: in a process of its own PyTorch neither meets the profiler's CUPTI nor counts among the run's memory and time.
"""

import json
import os
import statistics
import subprocess
import sys
from typing import Dict

import numpy as np

from ..errors import DeviceError
from ..library import operators

# Bytes filled and copied: 17 times the 60 MB second-level cache of an H200; on a CPU beyond most third-level caches.
_BYTES = {"cpu": 256 << 20, "gpu": 1 << 30}
# Side of the square matrices: 8,192 keep every multiprocessor of an H200 busy for some 20 ms in float32.
_SIDE = {"cpu": 2048, "gpu": 8192}
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
    # The benchmark's own machinery: it knows how to time both kinds of device.
    if backend == "gpu":
        from .machines.cuda import Cuda

        machine = Cuda(device)
    else:
        from .machines.host import Host

        machine = Host()
    side = np.ones((1, 1, 5, 5), np.float32)
    machine.load(side, side, (_BYTES[backend] // 4096, 1024))
    found = {}
    for contender, moved in machine.limits():
        machine.time(contender.run, 1)
        found[f"{contender.name}_gb_s"] = moved / statistics.median(machine.time(contender.run, _RUNS)) / 1e9
    machine.load(side, side, (1, 1))  # the large tensors' memory back
    n = _SIDE[backend]
    matrix = np.random.default_rng(1).random((n, n), dtype=np.float32)
    for name, a in _matrices(backend, machine, matrix).items():
        machine.time(lambda a=a: a @ a, 1)
        found[f"{name}_tflop_s"] = 2 * n**3 / statistics.median(machine.time(lambda a=a: a @ a, _RUNS)) / 1e12
    return found


def _matrices(backend: str, machine, matrix: np.ndarray) -> Dict:
    if backend == "cpu":
        return {"fp32": matrix}
    tensors = machine.tensors
    return {"fp32": tensors.put(matrix), "fp16": tensors.put(matrix.astype(np.float16))}


def measured_apart(backend: str, device: int = 0, threads: int = 0) -> Dict[str, float]:
    """`measure` in a process of its own, on a CPU with so many threads (0: the cores it may use).

    Raises
    ------
    DeviceError
        With that process's reason.
    """
    command = [sys.executable, "-m", "fashion_infer.measure.ceilings", backend, str(device), str(threads)]
    path = os.pathsep.join(p for p in sys.path if p)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            env={**os.environ, "PYTHONPATH": path, **({"OPENBLAS_NUM_THREADS": str(threads)} if threads else {})},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"the ceilings could not be measured: {error}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise DeviceError(said[-1])
    return json.loads(done.stdout)


def _main() -> None:
    backend, device, threads = sys.argv[1], *map(int, sys.argv[2:])
    try:
        operators.set_threads(threads)
        print(json.dumps(measure(backend, device)))
    except DeviceError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _main()
