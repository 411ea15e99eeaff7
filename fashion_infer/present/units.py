"""Units of rates, and functions that convert and format rates."""

from typing import Tuple


def arithmetic(backend: str) -> Tuple[str, float]:
    """Return the unit in which a backend's arithmetic rates are shown, and the factor that converts TFLOP/s to it."""
    return ("TFLOP/s", 1.0) if backend == "gpu" else ("GFLOP/s", 1e3)


def ceiling(name: str, value: float, backend: str) -> Tuple[str, float]:
    """Convert a ceiling of `bench.ceilings`: return its description, which ends with a unit, and its value in it."""
    unit, scale = arithmetic(backend)
    for end, what, of, factor in (("_gb_s", "memory", "GB/s", 1.0), ("_tflop_s", "matrix product", unit, scale)):
        if name.endswith(end):
            return f"{what}, {name[: -len(end)]}, {of}", factor * value
    return name, value


def three_digits(value: float) -> str:
    """Round a number to three significant digits and format it: 4653.2 as 4,650."""
    return f"{float(f'{value:.3g}'):,g}"
