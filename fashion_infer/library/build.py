"""The library's build options, and the instruction set that it uses on this machine."""

from .bindings import load


def build_info() -> str:
    """Return version, compiler, instruction sets and CUDA architectures of the library, in one line."""
    return load().fops_build_info().decode()


def cpu_isa() -> str:
    """Return the instruction set that the fast CPU kernels use here: "avx512", "avx2", "neon" or "generic"."""
    return load().fops_cpu_isa().decode()
