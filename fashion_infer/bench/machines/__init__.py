"""Where benchmarks run: a file a machine. `open_machine` gives the machine of a backend.

A machine has
- `backend`, `precisions` (of our networks), `convolution_peers` and `network_peers` (name: a function of `peers`),
- `convolution_defaults` (batch, repeat) and `network_repeat` (timed runs of a large batch),
- `describe(peers)`: what identifies it, and versions,
- `check_convolution(shape)`: refuses what memory does not hold,
- `convolution(x, weight, y_shape)`: one convolution, with `kernel`, `poison`, `complete`, `limits`, `peers`, `clock`,
- `drawn(shape, pixels, seed)`: the same on random tensors of its own, which `inputs(picked)` gives as NumPy,
- `check_drawn(shape)`: refuses what memory does not hold,
- `point_seconds`: for the timed runs of one point of the grid, and `release()`: gives memory back between two points,
- `cases(batches)`: what is measured of a network,
- `check_network(network, batch, peers)`: refuses what memory does not hold,
- `network(where, network, images)`: one case of a network, with `ours`, `peers` and `clock`.
"""


def open_machine(backend: str, device: int = 0):
    """The machine of a backend, "cpu" or "gpu".

    Raises
    ------
    DeviceError
        When there is no such device, or on a GPU neither PyTorch nor CuPy can use it.
    """
    if backend == "gpu":
        from .cuda import Cuda

        return Cuda(device)
    from .cpu import Cpu

    return Cpu()
