"""The inference pipeline of a GPU-programming course: Fashion-MNIST through custom operators in MXNet.

>>> from fashion_infer import infer
>>> result = infer(model="ece408-high", n=10000, backend="cpu")
>>> result.correctness
0.8562
"""

from typing import TYPE_CHECKING

from .version import __version__

if TYPE_CHECKING:
    from .api import bench_conv, check, compare, explain_kernel, infer
    from .errors import CheckFailed, CheckpointError, DataError, DeviceError, FashionInferError, UsageError
    from .result import Result

_ERRORS = ("CheckFailed", "CheckpointError", "DataError", "DeviceError", "FashionInferError", "UsageError")
_FUNCTIONS = ("bench_conv", "check", "compare", "explain_kernel", "infer")
# The module of each public name. It is imported when the name is first used, so that `import fashion_infer` is fast.
_ROOMS = {"Result": "result", **dict.fromkeys(_FUNCTIONS, "api"), **dict.fromkeys(_ERRORS, "errors")}
__all__ = [
    "CheckFailed",
    "CheckpointError",
    "DataError",
    "DeviceError",
    "FashionInferError",
    "Result",
    "UsageError",
    "__version__",
    "bench_conv",
    "check",
    "compare",
    "explain_kernel",
    "infer",
]


def __getattr__(name):
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "infer":
        # If one thread forks while another imports a module, the module's import lock is never released in the child.
        # h5py, which loads checkpoints, is therefore imported before the first call of `infer`. The import of MXNet
        # needs no such care, because a fork waits for our lock around it.
        import h5py  # noqa: F401
    from importlib import import_module

    return getattr(import_module(f".{_ROOMS[name]}", __name__), name)


def __dir__():
    return sorted(set(globals()) | set(__all__))
