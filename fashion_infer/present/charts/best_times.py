"""The chart of the best times of a class over the days of an assignment."""

import threading
from datetime import datetime, timezone, tzinfo
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ..content import three_digits
from . import figure as figures

_DAY = 86400.0
_LOCK = threading.Lock()  # one chart at a time, because the common style is set in matplotlib's global parameters
# Sizes of the wide chart (False) and of the narrow one (True): width and height in inches, and the share of the width
# that is for the names of the curves.
_SIZES = {False: (8.8, 3.2, 0.15), True: (3.7, 3.2, 0.32)}


class Steps(NamedTuple):
    """A curve of the best time so far, in steps. `colour` is a name in `figure.PALETTE`."""

    name: str
    colour: str
    points: Sequence[Tuple[float, float]]  # pairs: the moment in seconds since the epoch, and the new best time in ms


class Level(NamedTuple):
    """A constant time for comparison, drawn as a horizontal line. `colour` is a name in `figure.PALETTE`."""

    name: str
    colour: str
    ms: float  # 0 if there is no such time


def draw(
    path: str,
    curves: Sequence[Steps],
    levels: Sequence[Level],
    now: float,
    deadline: Optional[float],
    narrow: bool,
    zone: tzinfo = timezone.utc,
) -> None:
    """Draw curves and levels, up to the deadline if it is near, else to now; DataError if that fails."""
    curves, levels = [one for one in curves if one.points], [one for one in levels if one.ms > 0]
    with _LOCK:
        _draw(path, curves, levels, now, deadline, narrow, zone)


@figures.themed
def _draw(path, curves, levels, now, deadline, narrow, zone):
    width, height, share = _SIZES[narrow]
    figure, (axes,) = figures.new(width, height)
    times = [ms for one in curves for _, ms in one.points] + [one.ms for one in levels]
    start, end, far = span(curves, now, deadline)
    figures.log_axis(axes, "y", min(times, default=1) / 1.15, max(times, default=1) * 1.15, " ms", (1, 2, 5))
    axes.grid(axis="y", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    ends: List[Tuple[float, str, str]] = []
    for one in levels:
        axes.plot([_moment(start), _moment(end)], [one.ms, one.ms], "--", color=figures.LIGHT[one.colour], linewidth=1)
        ends.append((one.ms, one.name, one.colour))
    for one in curves:
        when = [min(at, end) for at, _ in one.points] + [min(max(now, one.points[-1][0]), end)]
        best = [ms for _, ms in one.points] + [one.points[-1][1]]
        axes.step(list(map(_moment, when)), best, where="post", color=figures.LIGHT[one.colour], linewidth=1.8)
        axes.plot(list(map(_moment, when[:-1])), best[:-1], "o", color=figures.LIGHT[one.colour], markersize=3)
        ends.append((best[-1], one.name, one.colour))
    if deadline is not None and start < deadline <= end:
        axes.axvline(_moment(deadline), color=figures.LIGHT["limit"], linestyle=":", linewidth=1)
        coordinates = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        place = _moment(deadline), 1
        figures.label(axes, "deadline", place, figures.LIGHT["limit"], (-4, -2), va="top", ha="right", **coordinates)
    axes.set_xlim(_moment(start), _moment(end + far * share))
    _days(axes, narrow, zone)
    _names(axes, sorted(ends), _moment(end + 0.015 * far), height)
    figures.save(figure, path)


def span(curves: Sequence[Steps], now: float, deadline: Optional[float]) -> Tuple[float, float, float]:
    """Return start, end and length of the time axis in seconds; it ends at the deadline if that is near."""
    start = min((one.points[0][0] for one in curves), default=now - _DAY)
    last = max((one.points[-1][0] for one in curves), default=now)
    near = deadline is not None and deadline <= now + max(now - start, 2 * _DAY)
    end = max(deadline if near and deadline is not None else now, start + 3600, last)
    return start, end, end - start


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def _days(axes, narrow: bool, zone: tzinfo) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    # Allow at least 5 ticks: with fewer, no interval fits some spans, and Matplotlib warns.
    locator = AutoDateLocator(minticks=2, maxticks=5 if narrow else 9, tz=zone)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, zone, show_offset=False))


def _names(axes, ends: List[Tuple[float, str, str]], x: datetime, height: float) -> None:
    low, high = axes.get_ylim()
    places = figures.apart([ms for ms, _, _ in ends], low, high, int(height * 72 / 14))
    for (ms, name, colour), place in zip(ends, places):
        more = {"fontweight": "bold" if name == "you" else None, "annotation_clip": False}
        figures.label(axes, f"{name} {three_digits(ms)}", (x, place), figures.LIGHT[colour], **more)
