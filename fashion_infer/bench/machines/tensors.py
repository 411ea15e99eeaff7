"""Device memory, streams and events for benchmarks: from PyTorch."""

import importlib

from ...errors import DeviceError


def find(device: int):
    """Return the TorchTensors of a device; DeviceError if PyTorch is missing or does not work there."""
    try:
        return TorchTensors(device)
    except Exception:  # it is not installed, has no CUDA, or needs another driver
        raise DeviceError(
            "a benchmark on the GPU needs PyTorch with CUDA: pip install torch, or use --backend cpu"
        ) from None


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


def _dotted(cudnn):  # pragma: no cover (PyTorch with CUDA only)
    version = cudnn.version() or 0
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"
