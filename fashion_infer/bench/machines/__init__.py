"""Machines that benchmarks run on, each in one file, with the same methods: `cpu.Cpu` has the shortest ones."""


def open_machine(backend: str, device: int = 0):
    """Open the machine of a backend; DeviceError if it does not exist, or PyTorch cannot use it."""
    if backend == "gpu":
        from .cuda import Cuda

        return Cuda(device)
    from .cpu import Cpu

    return Cpu()
