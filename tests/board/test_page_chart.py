"""The plot's coordinates, and how values are worded."""

import math
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

pytest.importorskip("fastapi")
from fashion_infer.board.page import standing
from fashion_infer.board.page.view import chart, words

START = datetime(2026, 11, 1, 15, 30, tzinfo=timezone.utc).timestamp()
DAY = 86400.0
SIZES = some.sampled_from(chart.SIZES)
falling = some.lists(some.tuples(some.floats(0, 60 * DAY), some.floats(1e-3, 1e5)), min_size=1, max_size=40)


def steps(raw):
    """Times in order, each better than the one before."""
    found = []
    for when, ms in sorted(raw):
        if not found or ms < found[-1][1]:
            found.append((START + when, ms))
    return found


@settings(deadline=None, max_examples=150)
@given(some.lists(falling, min_size=1, max_size=3), some.lists(some.floats(1e-3, 1e4), max_size=2),
       some.floats(0, 80 * DAY), some.none() | some.floats(-10 * DAY, 200 * DAY), SIZES)  # fmt: skip
def test_everything_lies_within_the_plot_and_labels_do_not_meet(raw, limits, now, deadline, size):
    series = [chart.Series(name, name, steps(one)) for name, one in zip(("best", "you", "middle"), raw)]
    lines = [chart.Line("line", ms) for ms in limits]
    until = None if deadline is None else START + deadline
    plot = chart.draw(size, series, lines, START + now, until)
    for curve in plot.curves:
        numbers = [float(part) for part in curve.path.replace("M", " ").replace("H", " ").replace("V", " ").split()]
        assert all(map(math.isfinite, numbers))
        for x, y in curve.dots:
            assert size.left <= x <= plot.right and 14 <= y <= plot.bottom
        # less is better, and further down
        assert [y for _, y in curve.dots] == sorted(y for _, y in curve.dots)
        assert size.left <= curve.end <= plot.right
    heights = sorted(label.y for label in [*(curve.label for curve in plot.curves), *plot.limits])
    assert all(b - a >= 14.9 for a, b in zip(heights, heights[1:])) and heights[-1] <= plot.bottom
    assert len(plot.across) + 1 >= 1 and len(plot.across) <= size.ticks + 1
    assert all(size.left - 0.1 <= tick.at <= plot.right + 0.1 for tick in plot.across)
    assert [tick.at for tick in plot.up] == sorted((tick.at for tick in plot.up), reverse=True)
    assert plot.deadline is None or size.left <= plot.deadline <= plot.right


def test_a_plot_by_hand():
    """Two days; 100 ms, then 10: with a line at 1 the axis is log from 1 / 1.15 to 115."""
    series = [chart.Series("best", "best", [(START, 100.0), (START + DAY, 10.0)])]
    plot = chart.draw(chart.SIZES[0], series, [chart.Line("limit", 1.0)], START + 2 * DAY, None)
    (curve,) = plot.curves
    width, height = plot.right - 56, plot.bottom - 14
    share = math.log(1.15) / math.log(115 * 1.15)
    assert curve.dots[0] == (56, pytest.approx(14 + share * height, abs=0.1))
    assert curve.dots[1] == (pytest.approx(56 + width / 2, abs=0.5), pytest.approx(14 + height / 2, abs=0.1))
    assert curve.end == plot.right and curve.label.text == "best 10.00"
    assert [tick.text for tick in plot.up] == ["1", "2", "5", "10", "20", "50", "100"]
    assert [tick.text for tick in plot.across] == ["2 Nov", "3 Nov"]


def test_there_is_no_plot_of_nothing():
    assert (
        chart.draw(chart.SIZES[0], [chart.Series("best", "best", [])], [chart.Line("limit", 1.0)], START, None) is None
    )


@settings(deadline=None, max_examples=100)
@given(some.lists(some.tuples(some.integers(0, 11), some.floats(1, 100)), max_size=60))
def test_curves_are_what_a_look_at_every_moment_says(tries):
    """Against bests worked out anew for each moment."""

    class Row:
        purpose, ranked, team_id = "first", True, None

        def __init__(self, index, who, ms):
            self.person_id, self.op_ms = who, ms
            self.submitted_at = datetime.fromtimestamp(START + index, timezone.utc)

    rows = [Row(index, who, ms) for index, (who, ms) in enumerate(tries)]
    curves, best, middle = standing._curves(rows)

    def at(points, when):
        return next((ms for moment, ms in reversed(points) if moment <= when), None)

    for index in range(len(rows)):
        when = START + index
        bests = {}
        for who, ms in tries[: index + 1]:
            bests[who] = min(ms, bests.get(who, ms))
        assert {key[1]: at(points, when) for key, points in curves.items() if at(points, when)} == bests
        assert at(best, when) == min(bests.values())
        if len(bests) >= 8:
            assert at(middle, when) == sorted(bests.values())[(len(bests) - 1) // 2]


@pytest.mark.parametrize("ms, text", [(None, "\u2013"), (0.0684, "0.068"), (0.845, "0.845"), (4.2, "4.200"),
                                      (12.2, "12.20"), (448.04, "448.0"), (90123.4, "90,123.4")])  # fmt: skip
def test_milliseconds(ms, text):
    assert words.milliseconds(ms) == text


@pytest.mark.parametrize("value, text", [(None, "unknown"), (0, "10 s"), (42, "40 s"), (89, "90 s"), (91, "2 min"),
                                         (3600, "60 min"), (7200, "2 h"), (36 * 3600, "2 days")])  # fmt: skip
def test_spans_are_within_a_factor_of_two(value, text):
    assert words.seconds(value) == text


@settings(max_examples=200)
@given(some.floats(5, 1e7))
def test_every_span_is_true_within_a_factor_of_two(value):
    number, unit = words.seconds(value).split()
    said = float(number) * {"s": 1, "min": 60, "h": 3600, "days": 86400}[unit]
    assert 0.5 <= said / value <= 2


def test_moments_are_utc_whatever_their_zone():
    when = datetime(2026, 12, 5, 23, 59, tzinfo=timezone(timedelta(hours=-6)))
    assert words.moment(when) == "6 Dec 2026, 05:59 UTC" and words.machine(when) == "2026-12-06T05:59:00Z"
