"""The spread of times and the load of other programs, compared with NumPy's quantiles and with values by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fashion_infer.system import noise


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30))
def test_spread_and_slow_end(times):
    if len(times) == 1:
        assert noise.spread(times) is None and not noise.steady(times) and noise.slow_end(times) == times[0]
        return
    low, middle, high = np.quantile(times, [0.25, 0.5, 0.75] if len(times) > 3 else [0, 0.5, 1])
    assert noise.spread(times) == pytest.approx((high - low) / middle) and noise.slow_end(times) == pytest.approx(high)


def test_load_counts_other_programs_on_these_processors(monkeypatch, tmp_path):
    monkeypatch.setattr(noise, "_STAT", tmp_path / "stat")
    monkeypatch.setattr(noise.os, "sched_getaffinity", lambda pid: {0, 2})
    monkeypatch.setattr(noise.os, "sysconf", lambda name: 100)

    def used(wall, own, *busy):
        rows = [f"cpu{number} {ticks} 0 0 999 0 0 0 0 0 0" for number, ticks in enumerate(busy)]
        noise._STAT.write_text("\n".join(["cpu 1 2 3", *rows, "ctxt 5"]))
        monkeypatch.setattr(noise, "time", SimpleNamespace(monotonic=lambda: wall))
        monkeypatch.setattr(noise.os, "times", lambda: (own, 0.0, 0.0, 0.0, wall))
        return noise.used()

    start = used(10.0, 1.0, 100, 500, 300)
    used(20.0, 7.0, 800, 1500, 700)
    # In 10 s, processors 0 and 2 were busy for 11 of 20 s, 6 s of which this process used.
    assert noise.load(start) == pytest.approx(0.25)
    noise._STAT.unlink()
    assert noise.load(start) is None and noise.used() is None
