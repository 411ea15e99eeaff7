"""The library's convolution kernels: their tables, and convolutions outside MXNet, for tests and benchmarks."""

import itertools
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..errors import UsageError
from . import bindings
from .bindings import BACKENDS, NOT_LOGGED, address, check, load, output_array


class Kernel(NamedTuple):
    name: str
    summary: str
    takes: str  # a description of the shapes that the kernel supports; "" for all
    precision: str  # "float32" (as accurate as float32 arithmetic), "tf32" or "fp16"


def table(backend: str = "cpu") -> List[Kernel]:
    """Return the kernels of a backend, "cpu" or "gpu"; none for "gpu" if the library was built without CUDA."""
    kernels = []
    for index in range(load().fops_kernel_count(BACKENDS[backend])):
        info = bindings.KernelInfo()
        check(load().fops_kernel_describe(BACKENDS[backend], index, info))
        kernels.append(Kernel(*(getattr(info, field).decode() for field in Kernel._fields)))
    return kernels


def steps(backend: str = "cpu") -> Dict[str, int]:
    """Return the steps of a backend's ladder, the kernels before `tensor-core`, by kernel name, counted from 1."""
    names = itertools.takewhile(lambda name: name != "tensor-core", (kernel.name for kernel in table(backend)))
    return {name: step for step, name in enumerate(names, 1)}


def check_kernel(kernel: str, backend: str) -> None:
    """Raise UsageError unless `kernel` is "auto" or a kernel of that backend: "cpu", "gpu", or "auto" for either."""
    if kernel == "auto":
        return
    backends = tuple(BACKENDS) if backend == "auto" else (backend,)
    known = list(dict.fromkeys(line.name for each in backends for line in table(each)))
    if kernel not in known:
        what = "kernel" if backend == "auto" else f"{backend} kernel"
        raise UsageError(f"unknown {what} '{kernel}'; known: {', '.join(['auto', *known])}")


def describe(x_shape: Sequence[int], k_shape: Sequence[int], dtype=np.float32) -> bindings.ConvSize:
    """Return the C struct for data (B,C,H,W) and weights (M,C,K,K); UsageError if they do not fit together."""
    if len(x_shape) != 4 or len(k_shape) != 4 or k_shape[1] != x_shape[1] or k_shape[2] != k_shape[3]:
        raise UsageError(f"data must be (B,C,H,W) and weights (M,C,K,K), not {tuple(x_shape)} and {tuple(k_shape)}")
    return bindings.ConvSize(*x_shape, k_shape[0], k_shape[2], bindings.element_type(dtype))


def chosen_kernel(
    x_shape: Sequence[int], k_shape: Sequence[int], backend: str = "cpu", kernel: str = "auto", dtype=np.float32
) -> str:
    """Return the name of the kernel that runs for these shapes; raise UsageError if `kernel` does not support them."""
    chosen = bindings.Text()
    check(load().fops_conv_check(BACKENDS[backend], kernel.encode(), describe(x_shape, k_shape, dtype), chosen))
    return (chosen.value or b"").decode()


def convolve(
    x: np.ndarray,
    weight: np.ndarray,
    kernel: str = "auto",
    backend: str = "cpu",
    device: int = 0,
    node: int = NOT_LOGGED,
    out: Optional[np.ndarray] = None,
) -> np.ndarray:
    """Run one convolution of x (B,C,H,W), float32 or uint8, and weights (M,C,K,K) float32, outside MXNet.

    The result is (B,M,H-K+1,W-K+1) float32; `out` has to be C-contiguous. On the GPU, tensors are copied there and
    back. The run is in the op-time log only if it has a `node`. UsageError for unsupported shapes.
    """
    return prepare(x, weight, kernel, backend, device, node, out)()


def prepare(
    x: np.ndarray,
    weight: np.ndarray,
    kernel: str = "auto",
    backend: str = "cpu",
    device: int = 0,
    node: int = NOT_LOGGED,
    out: Optional[np.ndarray] = None,
) -> Callable[[], np.ndarray]:
    """Return a function that runs `convolve` on the same tensors in every call, with all checks done before."""
    x = np.ascontiguousarray(x)
    if x.dtype != np.uint8:
        x = np.ascontiguousarray(x, np.float32)
    weight = np.ascontiguousarray(weight, np.float32)
    conv = describe(x.shape, weight.shape, x.dtype)
    check(load().fops_conv_check(BACKENDS[backend], kernel.encode(), conv, None))
    out = output_array(out, (conv.B, conv.M, conv.H - conv.K + 1, conv.W - conv.K + 1), np.float32)
    where: Tuple[Any, ...] = (kernel.encode(), device, conv) if backend == "gpu" else (kernel.encode(), conv)
    forward = load().fops_conv_forward_staged if backend == "gpu" else load().fops_conv_forward_cpu
    arguments = (*where, address(x), address(weight), address(out), node)
    tensors = x, weight, out

    def run() -> np.ndarray:
        check(forward(*arguments))
        return tensors[-1]  # `tensors` keeps all three arrays alive as long as this function

    return run


def launch(kernel: str, conv: bindings.ConvSize, x: int, weight: int, y: int, stream: int) -> None:
    """Queue one convolution of device pointers on a stream (0: the default one), without waiting for it."""
    check(load().fops_conv_forward_gpu(kernel.encode(), conv, x, weight, y, stream))


def launch_timed(kernel: str, conv: bindings.ConvSize, x: int, weight: int, y: int, stream: int, node: int = 0) -> None:
    """Run `launch`, wait for it, and log its time in the op-time log under a node's number."""
    check(load().fops_conv_forward_timed(kernel.encode(), conv, x, weight, y, stream, node))
