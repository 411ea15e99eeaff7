"""Units of rates, and the format of figures in these units."""

from typing import Tuple


def arithmetic(backend: str) -> Tuple[str, float]:
    """Return the unit of arithmetic rates for a backend, and the number of these units in one TFLOP/s."""
    return ("TFLOP/s", 1.0) if backend == "gpu" else ("GFLOP/s", 1e3)


def ceiling(name: str, value: float, backend: str) -> Tuple[str, float]:
    """Return a description of a ceiling of `bench.ceilings` that ends with a unit, and its value in this unit."""
    unit, scale = arithmetic(backend)
    for end, what, of, factor in (("_gb_s", "memory", "GB/s", 1.0), ("_tflop_s", "matrix product", unit, scale)):
        if name.endswith(end):
            return f"{what}, {name[: -len(end)]}, {of}", factor * value
    return name, value


def three_digits(value: float) -> str:
    """Format a number with at least three digits: 4650.3 as 4,650."""
    return f"{float(f'{value:.3g}'):,g}"
