"""Machines that benchmarks run on, one file each. `open_machine` returns the machine of a backend.

A machine has
- `backend`, `precisions` (of our networks), `convolution_peers` and `network_peers` (name: a function of `peers`),
- `convolution_defaults` (batch, repeat) and `network_repeat` (timed runs of a large batch),
- `describe(peers)`: what identifies it, and versions,
- `check_convolution(shape)`: refuses shapes that do not fit in memory,
- `convolution(x, weight, y_shape)`: one convolution, with `kernel`, `poison`, `complete`, `limits`, `peers`, `clock`,
- `drawn(shape, pixels, seed)`: the same on random tensors that it draws, which `inputs(picked)` returns as NumPy,
- `check_drawn(shape)`: refuses shapes that do not fit in memory,
- `point_seconds`: time budget of one point of the grid, and `release()`: frees memory between two points,
- `cases(batches)`: the cases measured for a network,
- `check_network(network, batch, peers)`: refuses batches that do not fit in memory,
- `network(where, network, images)`: one case of a network, with `ours`, `peers` and `clock`.
"""


def open_machine(backend: str, device: int = 0):
    """Open the machine of a backend, "cpu" or "gpu".

    Raises
    ------
    DeviceError
        When the device does not exist, or neither PyTorch nor CuPy can use the GPU.
    """
    if backend == "gpu":
        from .cuda import Cuda

        return Cuda(device)
    from .cpu import Cpu

    return Cpu()
