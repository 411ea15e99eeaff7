"""How fast this device can multiply: the flat parts of the roofline, measured by matrix products.

The memory's ceilings come from the benchmark's own fill and copy.
"""

import time
from typing import List, NamedTuple

import numpy as np

from .. import operators

# 2 * 2048**3 = 17 GFLOP: 0.1 s on two cores with AVX-512; 8192 a side is 1.1 TFLOP, 20 ms at a GPU's 50 TFLOP/s.
_SIDE = {"cpu": 2048, "gpu": 8192}


class Ceiling(NamedTuple):
    """The best of several matrix products."""

    name: str
    tflop_s: float


def arithmetic(backend: str, device: int = 0, repeat: int = 5) -> List[Ceiling]:
    """Measured matrix products: float32 on the CPU by NumPy; on a GPU by PyTorch, in float32 and half precision.

    Parameters
    ----------
    backend, device
        "cpu" or "gpu", and the GPU's index.
    repeat
        Timed products; the fastest counts, for a ceiling is what nothing exceeds.

    Returns
    -------
    list of Ceiling
        Empty on a GPU without PyTorch.
    """
    side = _SIDE[backend]
    return _host(side, repeat) if backend == "cpu" else _cuda(side, device, repeat)


def _host(side, repeat):
    a = np.random.default_rng(0).random((side, side), dtype=np.float32)
    out = np.empty_like(a)
    np.matmul(a, a, out=out)
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        np.matmul(a, a, out=out)
        best = min(best, time.perf_counter() - start)
    return [Ceiling(f"float32 matrix product, NumPy ({operators.cpu_isa()})", 2 * side**3 / best / 1e12)]


def _cuda(side, device, repeat):  # pragma: no cover (needs a CUDA device)
    try:
        import torch

        torch.cuda.set_device(device)
    except Exception:  # not installed, or built without CUDA
        return []
    found = []
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        for name, kind in (("float32", torch.float32), ("float16", torch.float16)):
            a = torch.rand(side, side, device=f"cuda:{device}").to(kind)
            a @ a
            events = [torch.cuda.Event(enable_timing=True) for _ in range(repeat + 1)]
            events[0].record()
            for event in events[1:]:
                a @ a
                event.record()
            events[-1].synchronize()
            best = min(start.elapsed_time(end) for start, end in zip(events, events[1:])) / 1e3
            found.append(Ceiling(f"{name} matrix product, PyTorch", 2 * side**3 / best / 1e12))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return found
