"""Device memory, streams and events for benchmarks: from PyTorch if it works with CUDA here, else from CuPy."""

import importlib

from ...errors import DeviceError


def find(device: int):
    """Return the TorchTensors of a device, or CupyTensors if PyTorch does not work there; DeviceError without both."""
    for kind in (TorchTensors, CupyTensors):
        try:
            return kind(device)
        except Exception:  # the framework is not installed, has no CUDA, or needs another driver: try the next one
            continue
    raise DeviceError(
        "a benchmark on the GPU needs PyTorch or CuPy with CUDA: pip install torch or cupy-cuda13x; or --backend cpu"
    )


class TorchTensors:  # pragma: no cover (needs a CUDA device; tests/gpu runs it)
    def __init__(self, device):
        self.torch = torch = importlib.import_module("torch")
        torch.cuda.set_device(device)
        self.where = f"cuda:{device}"
        torch.empty(1, device=self.where)

    def versions(self):
        torch = self.torch
        return {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": _dotted(torch.backends.cudnn)}

    def put(self, array):
        return self.torch.from_numpy(array).to(self.where)

    def empty(self, shape):
        return self.torch.empty(tuple(shape), device=self.where)

    def fill(self, tensor, value):
        tensor.fill_(value)

    def zero(self, tensor):
        """Write zeros with PyTorch's function for zeros, which may use another kernel than `fill`."""
        tensor.zero_()

    def copy(self, to, source):
        to.copy_(source)

    def take(self, tensor, indices):
        return tensor[self.torch.from_numpy(indices).to(self.where)].contiguous().cpu().numpy()

    def has_nan(self, tensor):
        return bool(tensor.max().isnan().item())

    def pointer(self, tensor):
        return tensor.data_ptr()

    def stream(self):
        return self.torch.cuda.current_stream().cuda_stream

    def event(self):
        return self.torch.cuda.Event(enable_timing=True)

    def milliseconds(self, start, end):
        return start.elapsed_time(end)

    def pinned(self, array):
        return self.torch.from_numpy(array).pin_memory().numpy()

    def synchronize(self):
        self.torch.cuda.current_stream().synchronize()

    def head_start(self):
        self.torch.cuda._sleep(2_000_000)  # in clock cycles: about a millisecond in which the host can queue work ahead


class CupyTensors:  # pragma: no cover (needs a CUDA device; tests/gpu runs it)
    def __init__(self, device):
        self.cupy = importlib.import_module("cupy")
        self.cupy.cuda.Device(device).use()
        self.cupy.empty(1)
        self._scratch = None

    def versions(self):
        return {"cupy": self.cupy.__version__}

    def put(self, array):
        return self.cupy.asarray(array)

    def empty(self, shape):
        return self.cupy.empty(shape, "float32")

    def fill(self, tensor, value):
        tensor.fill(value)

    def zero(self, tensor):
        tensor.data.memset_async(0, tensor.nbytes)

    def copy(self, to, source):
        self.cupy.copyto(to, source)

    def take(self, tensor, indices):
        return tensor[self.cupy.asarray(indices)].get()

    def has_nan(self, tensor):
        return bool(self.cupy.isnan(tensor.max()))

    def pointer(self, tensor):
        return tensor.data.ptr

    def stream(self):
        return self.cupy.cuda.get_current_stream().ptr

    def event(self):
        return self.cupy.cuda.Event()

    def milliseconds(self, start, end):
        return self.cupy.cuda.get_elapsed_time(start, end)

    def pinned(self, array):
        pinned = importlib.import_module("cupyx").empty_pinned(array.shape, array.dtype)
        pinned[...] = array
        return pinned

    def synchronize(self):
        self.cupy.cuda.get_current_stream().synchronize()

    def head_start(self):
        # CuPy has no sleep. Writing 1 GiB eight times instead takes some milliseconds.
        if self._scratch is None:
            self._scratch = self.cupy.empty(2**28, "float32")
        for _ in range(8):
            self._scratch.fill(0)


def _dotted(cudnn):  # pragma: no cover (PyTorch with CUDA only)
    version = cudnn.version() or 0
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"
