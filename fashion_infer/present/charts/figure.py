"""What every chart begins and ends with."""

from typing import Optional

import numpy as np

from ...errors import DataError, UsageError
from ...system.files import replacing

COLOURS = {"auto": "tab:orange", "ours": "tab:blue", "peer": "tab:gray"}


def new(width: float, height: float, rows: int = 1, columns: int = 1):
    """A figure of so many inches, and its axes as an array of rows x columns, flat."""
    # Not pyplot: it looks for a screen, and keeps every figure alive.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, np.ravel(figure.subplots(rows, columns))


def save(figure, path: str) -> None:
    """Write a figure as a PNG or, where the name says so, as an SVG; DataError when the file cannot be written."""
    kind = path.lower().rpartition(".")[-1]
    metadata = {"Date": None} if kind == "svg" else None  # the same figures give the same file
    with replacing(path, DataError) as temporary:
        figure.savefig(temporary, format=kind, dpi=100, metadata=metadata)


def check_path(path: Optional[str]) -> None:
    """Raise UsageError unless a picture's file name ends in .png or .svg (or there is none)."""
    if path and not path.lower().endswith((".png", ".svg")):
        raise UsageError(f"a picture's file must be called NAME.png or NAME.svg, not {path}")


def colour(row, auto: str) -> str:
    """Of a contender on a convolution: `auto` is the kernel that auto runs."""
    return COLOURS["auto" if row.name == auto else row.kind]
