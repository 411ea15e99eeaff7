"""The chart of the best times, and the formatting of times and dates on pages."""

import math
import re
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

pytest.importorskip("fastapi")
from fashion_infer.board.page import rendering, standings
from fashion_infer.present.charts import best_times

START = datetime(2026, 11, 1, 15, 30, tzinfo=timezone.utc).timestamp()
DAY = 86400.0
times = some.floats(1e-3, 1e5)  # in ms: a microsecond to more than a minute
falling = some.lists(some.tuples(some.floats(0, 60 * DAY), times), max_size=10)


def steps(raw):
    """Return the (time, ms) pairs, sorted by time, that are better than all earlier ones."""
    found = []
    for when, ms in sorted(raw):
        if not found or ms < found[-1][1]:
            found.append((START + when, ms))
    return found


@settings(deadline=None, max_examples=8)
@given(
    some.lists(falling, min_size=1, max_size=3),
    some.just(0.0) | times,
    some.floats(0, 80 * DAY),
    some.none() | some.floats(-10 * DAY, 200 * DAY),
    some.booleans(),
)
def test_any_class_can_be_drawn(tmp_path_factory, raw, limit, now, deadline, narrow):
    path = tmp_path_factory.mktemp("chart") / "chart.svg"
    names = ("best", "ours"), ("you", "auto"), ("median", "peer")
    curves = [best_times.Steps(*name, steps(one)) for name, one in zip(names, raw)]
    until = None if deadline is None else START + deadline
    best_times.draw(str(path), curves, [best_times.Level("floor", "limit", limit)], START + now, until, narrow)
    drawn = ElementTree.parse(path).getroot()
    height = float(drawn.get("viewBox").split()[3])
    shown = [
        text
        for text in drawn.iter("{http://www.w3.org/2000/svg}text")
        if (text.text or "").split(" ")[0] in ("best", "you", "median", "floor")
    ]
    assert len(shown) == sum(bool(curve.points) for curve in curves) + (limit > 0)
    heights = sorted(y(text) for text in shown)
    assert all(0 < at < height for at in heights) and all(b - a > 7 for a, b in zip(heights, heights[1:]))


def y(text):
    if text.get("y"):
        return float(text.get("y"))
    return float(re.search(r"translate\([-\d.]+[ ,]([-\d.]+)\)", text.get("transform"))[1])


def test_only_a_near_deadline_extends_the_time_axis():
    curve = [best_times.Steps("best", "ours", [(START, 1.0)])]
    now = START + 3 * DAY
    for days, end in ((4, START + 4 * DAY), (90, now), (2, START + 2 * DAY), (None, now)):
        deadline = None if days is None else START + days * DAY
        assert best_times.span(curve, now, deadline) == (START, end, end - START)


def row(person, ms, hour, ranked=True, purpose="first"):
    """Return a judgement as the ranking's query of the store returns it."""
    when = datetime(2026, 11, 1, tzinfo=timezone.utc) + timedelta(hours=hour)
    return SimpleNamespace(team_id=None, person_id=person, ranked=ranked, purpose=purpose, op_ms=ms, submitted_at=when)


def test_curves_of_people_best_and_median():
    rows = [row(person, 100.0 + person, person) for person in range(8)]
    rows += [row(0, 200.0, 9), row(0, 50.0, 10), row(1, 1.0, 11, ranked=False), row(1, 1.0, 12, purpose="final-1")]
    curves, best, median = standings._curves(rows)
    assert [ms for _, ms in curves["person", 0]] == [100.0, 50.0] and [ms for _, ms in best] == [100.0, 50.0]
    assert [ms for _, ms in median] == [103.0]  # the lower median of eight people's times, 100 to 107


@given(some.floats(10, 1e6))
def test_a_duration_in_words_is_within_a_factor_of_two(value):
    number, unit = rendering.seconds(value).split()
    said = float(number) * {"s": 1, "min": 60, "h": 3600, "days": 86400}[unit]
    assert 0.5 <= said / value <= 2


@pytest.mark.parametrize("name, shown", [
    ("Asia/Tokyo", "6 Dec 2026, 14:59 JST"), ("America/Chicago", "5 Dec 2026, 23:59 CST"),
    *((name, "6 Dec 2026, 05:59 UTC") for name in ("UTC", "", "nowhere", "../zoneinfo/UTC", "a\0b", "x" * 300)),
])  # fmt: skip
def test_dates_are_shown_in_the_readers_zone(name, shown):
    when = datetime(2026, 12, 5, 23, 59, tzinfo=timezone(timedelta(hours=-6)))
    assert rendering.moment({"zone": rendering._zone(name)}, when) == shown


@given(some.floats(0.1, 1e6))
def test_times_are_rounded_by_less_than_a_percent(ms):
    assert math.isclose(float(rendering.milliseconds(ms).replace(",", "")), ms, rel_tol=6e-3)
