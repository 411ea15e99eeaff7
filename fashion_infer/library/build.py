"""The library's build options, and the instruction set that it uses here."""

from .bindings import load


def build_info() -> str:
    """Version, compiler, instruction sets and CUDA architectures of the library, in one line."""
    return load().fops_build_info().decode()


def cpu_isa() -> str:
    """The instruction set that the fast CPU kernels use here: "avx512", "avx2", "neon" or "generic"."""
    return load().fops_cpu_isa().decode()
