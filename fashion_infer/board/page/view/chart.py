"""The plot of best times over the days: coordinates for an SVG, which a template draws."""

import math
from datetime import datetime, timedelta, timezone
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from .words import milliseconds

Point = Tuple[float, float]  # seconds since the epoch, ms
_DAY = 86400.0
_STEPS = (1, 2, 5)
_GAP = 15.0  # between the baselines of two labels of 12 px


class Series(NamedTuple):
    """A time that only falls: a step wherever somebody was faster."""

    name: str  # of its class in the style sheet: best, middle, you
    label: str
    points: Sequence[Point]  # by time
    dots: bool = True


class Line(NamedTuple):
    """A time to compare with, the same on every day."""

    label: str
    ms: float


class Size(NamedTuple):
    """A drawing's, in pixels; `right` is what the labels take."""

    name: str
    width: int
    height: int
    left: int
    right: int
    ticks: int  # at most, of days


# One for each width of a page, so that letters of 12 px are about as large on all.
SIZES = (
    Size("desk", 1016, 360, 56, 128, 10), Size("tablet", 740, 330, 52, 112, 7), Size("phone", 360, 300, 40, 92, 4),
)  # fmt: skip


class Tick(NamedTuple):
    """A mark of an axis."""

    at: float
    text: str


class Label(NamedTuple):
    """A line's name at its right end: `at` is where the line ends, `y` where the name has room."""

    text: str
    at: float
    y: float


class Curve(NamedTuple):
    """A series as drawn."""

    name: str
    path: str
    end: float  # of the path; from there to the labels a thin line leads on
    dots: List[Tuple[float, float]]
    label: Label


class Plot(NamedTuple):
    """A whole drawing."""

    size: Size
    right: float  # where the plot ends and the labels begin
    bottom: float
    across: List[Tick]
    up: List[Tick]
    curves: List[Curve]
    limits: List[Label]
    deadline: Optional[float]


def draw(
    size: Size, series: Sequence[Series], lines: Sequence[Line], now: float, deadline: Optional[float]
) -> Optional[Plot]:
    """Coordinates of a plot; None where nothing was measured yet.

    Parameters
    ----------
    size
        Of the drawing.
    series
        Best times so far; each goes on to `now`.
    lines
        What they are compared with.
    now, deadline
        Seconds since the epoch. The plot ends at the deadline when it is near, else now.
    """
    series = [one for one in series if one.points]
    if not series:
        return None
    start = min(one.points[0][0] for one in series)
    last = max(one.points[-1][0] for one in series)
    # A deadline that is far away would press all that happened into a corner.
    near = deadline is not None and now < deadline <= now + max(now - start, 2 * _DAY)
    end = max(deadline if near and deadline else min(now, deadline or now), start + 3600, last)
    values = [ms for one in series for _, ms in one.points] + [line.ms for line in lines]
    low, high = min(values) / 1.15, max(values) * 1.15
    top, bottom, right = 14.0, size.height - 28.0, float(size.width - size.right)

    def x(when: float) -> float:
        return round(size.left + (right - size.left) * (min(when, end) - start) / (end - start), 1)

    def y(ms: float) -> float:
        return round(bottom - (bottom - top) * math.log(ms / low) / math.log(high / low), 1)

    until = min(max(now, last), end)
    drawn = [_curve(one, x, y, until) for one in series]
    limits = [Label(f"{line.label} {milliseconds(line.ms)}", y(line.ms), y(line.ms)) for line in lines]
    placed = _apart([curve.label for curve in drawn] + limits, top, bottom)
    curves = [curve._replace(label=label) for curve, label in zip(drawn, placed)]
    return Plot(
        size, right, bottom,
        [Tick(x(when), text) for when, text in days(start, end, size.ticks)],
        [Tick(y(ms), milliseconds(ms, short=True)) for ms in rounds(low, high)],
        curves, placed[len(curves):], x(deadline) if deadline is not None and start < deadline <= end else None,
    )  # fmt: skip


def _curve(one: Series, x, y, until: float) -> Curve:
    at: Dict[float, float] = {}  # of several steps within half a pixel the last is drawn
    for when, ms in one.points:
        at[round(2 * x(when)) / 2] = y(ms)
    dots = list(at.items())
    parts = [f"M{dots[0][0]} {dots[0][1]}"]
    parts += [f"H{across}V{up}" for across, up in dots[1:]]
    end = max(x(until), dots[-1][0])
    if not one.dots:
        dots.clear()
    parts.append(f"H{end}")
    height = y(one.points[-1][1])
    label = Label(f"{one.label} {milliseconds(one.points[-1][1])}", height, height)
    return Curve(one.name, "".join(parts), end, dots, label)


def _apart(labels: List[Label], top: float, bottom: float) -> List[Label]:
    """The labels with room for each: pushed down where they meet, and up again where they leave the plot."""
    order = sorted(range(len(labels)), key=lambda index: labels[index].at)
    heights: List[float] = []
    for index in order:
        heights.append(max(labels[index].at, heights[-1] + _GAP if heights else top))
    floor = bottom
    for place in reversed(range(len(heights))):
        heights[place] = min(heights[place], floor)
        floor = heights[place] - _GAP
    placed = list(labels)
    for index, height in zip(order, heights):
        placed[index] = labels[index]._replace(y=round(height, 1))
    return placed


def rounds(low: float, high: float) -> List[float]:
    """The round values between two: 1, 2 and 5 times powers of ten; of a wide range the powers alone."""
    steps = _STEPS if high / low < 300 else _STEPS[:1]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [value for power in powers for value in (step * 10.0**power for step in steps) if low <= value <= high]


def days(start: float, end: float, most: int) -> List[Tuple[float, str]]:
    """Midnights (UTC) between two times, at most so many and evenly apart; hours where a day is too long."""
    whole = (end - start) / _DAY
    if whole < 2:
        step = next((hours for hours in (1, 2, 3, 6, 12) if whole * 24 / hours <= most), 24) * 3600.0
    else:
        step = next(n for n in (1, 2, 5, 7, 14, 28, 56, 112, 224, 448, 10**6) if whole / n <= most) * _DAY
    first = datetime.fromtimestamp(start, timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
    found, when = [], first
    while when.timestamp() <= end:
        if when.timestamp() >= start:
            found.append((when.timestamp(), _day(when, whole < 2)))
        when += timedelta(seconds=step)
    return found


def _day(when: datetime, hours: bool) -> str:
    return when.strftime("%H:%M") if hours and (when.hour or when.minute) else f"{when.day} {when:%b}"
