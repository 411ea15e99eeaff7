"""The places where a case runs, CPU (NumPy) and GPU (PyTorch): memory with guard zones, library calls and float64."""

import numpy as np
import reference

from fashion_infer.library import bindings, kernels

GUARD = 512  # at least this many bytes on either side of a tensor
INPUT_GUARD, OUTPUT_GUARD = 0xFF, 0xA5  # bytes; 0xFF is NaN in float32, so that a read of the guard shows


class Buffer:
    """A tensor within a larger block of memory. `values` is the tensor, `address` is the address of its first value."""

    def __init__(self, memory, start, values, address, guard):
        self.memory, self.values, self.address = memory, values, address
        self._start, self._end, self._guard = start, start + values.nbytes, guard

    def intact(self):
        """Return whether nothing was written outside the tensor, as a scalar of NumPy or PyTorch."""
        return (self.memory[: self._start] == self._guard).all() & (self.memory[self._end :] == self._guard).all()


class Cpu:
    """NumPy, and the library's CPU kernels."""

    backend, budget, xp = "cpu", 1 << 18, np

    def buffer(self, array, offset, guard=INPUT_GUARD):
        """Return a buffer with a copy of an array, at an address `offset` bytes after a multiple of 64."""
        memory = np.full(2 * GUARD + 128 + array.nbytes, guard, np.uint8)
        start = GUARD + -(memory.ctypes.data + GUARD) % 64 + offset
        values = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        values[...] = array
        return Buffer(memory, start, values, values.ctypes.data, guard)

    def empty(self, shape, offset):
        """Return a buffer for float32 values, which are all NaN."""
        return self.buffer(np.full(shape, np.nan, np.float32), offset, OUTPUT_GUARD)

    def forward(self, kernel, conv, x, k, y):
        """Run one pass of a kernel over buffers; return the library's status."""
        pointers = x.address, k.address, y.address
        return bindings.load().fops_conv_forward_cpu(kernel.encode(), conv, *pointers, bindings.NOT_LOGGED)

    def run(self, network, x, out):
        network.forward(x, out=out)

    def double(self, values):
        return np.asarray(values).astype(np.float64)

    def convolve(self, x, k):
        return reference.convolve(x, k)

    def pool(self, x, layer):
        return reference.max_pool(x, layer.size, layer.stride, layer.full)

    def bits(self, values):
        """Return the bits of float32 values as whole numbers."""
        return values.view(np.int32)

    def numbers(self, values):
        """Return boolean and numeric scalars as a list of Python floats."""
        return [float(value) for value in values]


class Gpu:
    """PyTorch on the current CUDA device, and the library's CUDA kernels."""

    backend, budget = "gpu", 1 << 22

    def __init__(self, device="cuda"):
        import torch

        torch.zeros(1, device=device)  # fails here if there is no device
        self.xp = self.torch = torch
        self.device = device

    def buffer(self, array, offset, guard=INPUT_GUARD):
        """Return a buffer with a copy of an array, `offset` bytes after the allocator's address, a multiple of 512."""
        memory = self.torch.full((2 * GUARD + 64 + array.nbytes,), guard, dtype=self.torch.uint8, device=self.device)
        source = self.torch.from_numpy(np.ascontiguousarray(array))
        start = GUARD + offset
        values = memory[start : start + array.nbytes].view(source.dtype).reshape(array.shape)
        values.copy_(source)
        return Buffer(memory, start, values, values.data_ptr(), guard)

    def empty(self, shape, offset):
        """Return a buffer for float32 values, which are all NaN."""
        memory = self.torch.full(
            (2 * GUARD + 64 + 4 * int(np.prod(shape)),), OUTPUT_GUARD, dtype=self.torch.uint8, device=self.device
        )
        start = GUARD + offset
        values = memory[start : start + 4 * int(np.prod(shape))].view(self.torch.float32).reshape(shape)
        return Buffer(memory, start, values.fill_(float("nan")), values.data_ptr(), OUTPUT_GUARD)

    def forward(self, kernel, conv, x, k, y):
        """Run one pass of a kernel over buffers, on the current stream; return the library's status."""
        stream = self.torch.cuda.current_stream().cuda_stream
        pointers = x.address, k.address, y.address
        return bindings.load().fops_conv_forward_gpu(kernel.encode(), conv, *pointers, stream)

    def run(self, network, x, out):
        dtype = np.uint8 if x.dtype == self.torch.uint8 else np.float32
        network.launch(len(x), x.data_ptr(), dtype, out.data_ptr(), self.torch.cuda.current_stream().cuda_stream)

    def double(self, values):
        return self.torch.as_tensor(values).to(self.device).double()

    def convolve(self, x, k):
        """Compute a convolution in float64 as matrix products, which sum the same terms as the definition."""
        torch, side = self.torch, k.shape[2]
        columns = torch.nn.functional.unfold(x, side) if side > 1 else x.flatten(2)
        y = torch.matmul(k.reshape(len(k), -1), columns)
        return y.reshape(len(x), len(k), x.shape[2] - side + 1, x.shape[3] - side + 1)

    def pool(self, x, layer):
        return self.torch.nn.functional.max_pool2d(x, layer.size, layer.step, ceil_mode=layer.full)

    def bits(self, values):
        """Return the bits of float32 values as whole numbers."""
        return values.view(self.torch.int32)

    def numbers(self, values):
        """Return boolean and numeric scalars as a list of Python floats, waiting for the device only once."""
        return self.torch.stack([value.double() for value in values]).tolist()


def open_place(backend):
    return {"cpu": Cpu, "gpu": Gpu}[backend]()


def takes(place, kernel, conv):
    status = bindings.load().fops_conv_check(bindings.BACKENDS[place.backend], kernel.encode(), conv, None)
    return status == bindings.OK


def table(place):
    """Return (name, precision) of the library's own kernels for the place's backend, and of "auto"."""
    # The library's table may also have kernels that a test in this process has registered.
    names = reference.own_kernels(place.backend)
    own = [(line.name, line.precision) for line in kernels.table(place.backend) if line.name in names]
    return [*own, ("auto", "float32")]
