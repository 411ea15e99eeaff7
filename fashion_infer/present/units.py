"""Units of rates, and figures as they are written in them."""

from typing import Tuple


def arithmetic(backend: str) -> Tuple[str, float]:
    """The unit of arithmetic on such a device, and how many of it a TFLOP/s is."""
    return ("TFLOP/s", 1.0) if backend == "gpu" else ("GFLOP/s", 1e3)


def ceiling(name: str, value: float, backend: str) -> Tuple[str, float]:
    """A ceiling of `bench.ceilings` in words, and its value in the unit that they end with."""
    unit, scale = arithmetic(backend)
    for end, what, of, factor in (("_gb_s", "memory", "GB/s", 1.0), ("_tflop_s", "matrix product", unit, scale)):
        if name.endswith(end):
            return f"{what}, {name[: -len(end)]}, {of}", factor * value
    return name, value


def three_digits(value: float) -> str:
    """4650.3 as 4,650."""
    return f"{float(f'{value:.3g}'):,g}"
