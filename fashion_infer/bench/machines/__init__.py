"""Machines that benchmarks run on, each in one file. `open_machine` returns the machine of a backend.

A machine has
- `backend`; `precisions` of our networks; `convolution_peers` and `network_peers`, which map a peer's name to a
  function of `peers`,
- `convolution_defaults` (batch, repeat) and `network_repeat` (number of timed runs of a large batch),
- `describe(peers)`, which returns the device's identity and the versions of software,
- `check_convolution(shape)`, which refuses shapes that do not fit in memory,
- `convolution(x, weight, y_shape)`, which returns one convolution on given tensors, with `kernel`, `poison`,
  `complete`, `limits`, `peers` and `clock`,
- `cases(batches)`, which returns the cases to measure for a network,
- `check_network(network, batch, peers)`, which refuses batches that do not fit in memory,
- `network(where, network, images)`, which returns one case of a network, with `ours`, `peers` and `clock`.
"""


def open_machine(backend: str, device: int = 0):
    """Open the machine of a backend; DeviceError if it does not exist, or PyTorch cannot use it."""
    if backend == "gpu":
        from .cuda import Cuda

        return Cuda(device)
    from .cpu import Cpu

    return Cpu()
