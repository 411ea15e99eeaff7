"""Common parts of all charts: one style, few ticks with units, and SVG for light and dark colour schemes."""

import functools
import io
import math
import re
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ...errors import DataError, UsageError
from ...system.files import replacing

# Colours by purpose, as pairs for the light and the dark scheme. A chart is drawn in the light colours; in an SVG, CSS
# variables with these names replace them. Colours for text have a contrast ratio of at least 4.5 with the paper.
PALETTE: Dict[str, Tuple[str, str]] = {
    "paper": ("#ffffff", "#15181c"),
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#59636e", "#9ba3ad"),
    "rule": ("#d1d9e0", "#3d444d"),
    "ours": ("#0969da", "#58a6ff"),
    "auto": ("#bc4c00", "#f0883e"),
    "yours": ("#8250df", "#bc8cff"),
    "peer": ("#656d76", "#a0a8b2"),
    "limit": ("#cf222e", "#ff7b72"),
}
LIGHT = {name: light for name, (light, _) in PALETTE.items()}
WIDTH = 5.0  # width of a one-column chart in inches: 360 CSS units, so that a phone shows its text unscaled
SMALL = 8  # size of small text in points; most other text has 9 points
_RC = {
    "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 8, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "axes.titlelocation": "left", "axes.spines.top": False, "axes.spines.right": False,
    "figure.facecolor": LIGHT["paper"], "axes.facecolor": "none", "savefig.facecolor": LIGHT["paper"],
    "text.color": LIGHT["ink"], "axes.labelcolor": LIGHT["faint"], "axes.titlecolor": LIGHT["ink"],
    "axes.edgecolor": LIGHT["rule"], "xtick.color": LIGHT["rule"], "ytick.color": LIGHT["rule"],
    "xtick.labelcolor": LIGHT["faint"], "ytick.labelcolor": LIGHT["faint"], "grid.color": LIGHT["rule"],
    "svg.fonttype": "none",  # write text as text, not as curves: smaller, selectable, and in the reader's font
}  # fmt: skip


_FONT = "text { font-family: system-ui, sans-serif }"


def themed(draw: Callable) -> Callable:
    """Decorate a function so that it draws in the common style, which matplotlib reads when an artist is created."""

    @functools.wraps(draw)
    def drawn(*arguments, **options):
        import matplotlib

        with matplotlib.rc_context(_RC):
            return draw(*arguments, **options)

    return drawn


def new(width: float, height: float, rows: int = 1, columns: int = 1, **shared):
    """Create a figure with a size in inches; return it and a flat array of its rows x columns axes."""
    # Do not use pyplot: it looks for a screen, and keeps every figure alive.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, np.ravel(figure.subplots(rows, columns, **shared))


def save(figure, path: str) -> None:
    """Write a figure as a PNG, or as an SVG if the name ends in .svg; raise DataError if the file cannot be written."""
    with replacing(path, DataError) as temporary:
        if path.lower().endswith(".svg"):
            with open(temporary, "w", encoding="utf-8") as stream:
                stream.write(_svg(figure, path))
        else:
            figure.savefig(temporary, format="png", dpi=150)


def _svg(figure, path: str) -> str:
    """Convert a figure to SVG with CSS variables for colours. Equal figures give equal text."""
    import matplotlib

    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with io.StringIO() as stream, matplotlib.rc_context({"svg.hashsalt": re.split(r"[/\\]", path)[-1]}):
        figure.savefig(stream, format="svg", metadata=no_metadata)
        text = stream.getvalue()
    text = text[text.index("<svg") :]
    # Show text in the reader's font instead of matplotlib's. Matplotlib 3.7 writes its font in the property `font`,
    # later versions in `font-family`.
    text = re.sub(r"font: ([a-z0-9 ]*?)([\d.]+px)[^;\"]*", r"font: \1\2 system-ui, sans-serif", text)
    text = re.sub(r"font-family: [^;\"]*; ", "", text)
    # Remove ids such as line2d_1 and patch_2, which nothing refers to: a page may contain several charts, and its ids
    # must be unique.
    text = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text)
    for name, light in LIGHT.items():
        text = text.replace(light, f"var(--{name})")
    css = f"<style>{style()} {_FONT}</style>"
    return re.sub(r'<style type="text/css">.*?</style>', css, text, count=1, flags=re.DOTALL)


def style() -> str:
    """Return CSS that sets the variables: dark colours on a screen whose user prefers them, else light colours."""
    light, dark = ("; ".join(f"--{name}: {pair[i]}" for name, pair in PALETTE.items()) for i in (0, 1))
    return f":root {{ {light} }} @media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"


def check_path(path: Optional[str]) -> None:
    if path and not path.lower().endswith((".png", ".svg")):
        raise UsageError(f"a picture's file name must end in .png or .svg: {path} does not")


def colour(row, auto: str) -> str:
    """Return the colour of a contender. A kernel file and the kernel that auto runs have colours of their own."""
    return LIGHT["yours" if row.file else "auto" if row.name == auto else row.kind]


def label(axes, text: str, at, color: str, xytext=None, **more) -> None:
    """Write small text at a point, or from there at `xytext`, which `textcoords` explains."""
    axes.annotate(text, at, xytext, fontsize=SMALL, color=color, **{"va": "center", **more})


def log_axis(axes, which: str, low: float, high: float, unit: str = "", steps: Sequence[int] = (1,)) -> None:
    """Set up the logarithmic axis "x" or "y", with ticks at `steps` times powers of ten, or at 1, 2 and 5."""
    marks: List[float] = []
    for several in (steps, (1, 2, 5)):
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        marks = [step * 10.0**power for power in decades for step in several if low <= step * 10.0**power <= high]
        if len(marks) > 1:
            break
    getattr(axes, f"set_{which}scale")("log")
    getattr(axes, f"set_{which}lim")(low, high)
    axis = getattr(axes, f"{which}axis")
    axis.set_ticks(marks, [f"{mark:,.10g}{unit}" for mark in marks])
    axis.set_ticks([], minor=True)


def apart(values: Sequence[float], low: float, high: float, room: int) -> List[float]:
    """Return positions for labels of ascending values on a log axis that do not overlap (isotonic regression)."""
    step = math.log(high / low) / room
    # For each pool of adjacent labels: the mean of log(value) - index * step over its labels, and their number.
    pools: List[Tuple[float, int]] = []
    for place, value in enumerate(values):
        mean, size = math.log(value) - place * step, 1
        while pools and pools[-1][0] > mean:
            before, others = pools.pop()
            mean, size = (mean * size + before * others) / (size + others), size + others
        pools.append((mean, size))
    means = [mean for mean, size in pools for _ in range(size)]
    lowest, highest = math.log(low), math.log(high) - step * (len(means) - 1)
    return [math.exp(min(max(mean, lowest), highest) + place * step) for place, mean in enumerate(means)]
