"""What a wrong output looks like, on arrays."""

from types import SimpleNamespace

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from fashion_infer.judging import trials
from fashion_infer.judging import verdict as judging
from fashion_infer.judging.diagnosis import Diagnosis, diagnose


@pytest.fixture(scope="module")
def layer():
    """Data, weights and the right output: 6 images, 4 filters, 11 x 11."""
    rng = np.random.default_rng(3)
    x, weight = rng.integers(0, 256, (6, 3, 14, 14)).astype(np.float32), reference.weights(rng, 4, 3, 4)
    return x, weight, reference.convolve(x, weight).astype(np.float32)


def test_the_right_output_is_float32(layer):
    x, weight, y = layer
    found = diagnose(y, x, weight)
    assert (found.precision, found.wrong, found.right, found.first) == ("float32", 0, True, None)
    assert found.line().startswith("right (float32; largest error ")


@pytest.mark.parametrize("rounded", ["weight", "both", "sums"])
def test_half_precision_is_a_class_of_its_own(layer, rounded):
    x, weight, y = layer
    half = weight.astype(np.float16).astype(np.float32)
    result = {
        "weight": reference.convolve(x, half),
        "both": reference.convolve((x + 0.1).astype(np.float16), half),
        "sums": (y / 16).astype(np.float16) * 16.0,
    }[rounded]
    found = diagnose(result.astype(np.float32), x, weight)
    assert (found.precision, found.right) == ("tf32 or half", True)


def spoil(y, place, value=-1.0):
    y = y.copy()
    y[place] = value
    return y


ALL = slice(None)
MISTAKES = [
    ((ALL, ALL, ALL, slice(-1, None)), "only the last column is wrong: a boundary"),
    ((ALL, ALL, slice(-1, None)), "only the last row is wrong: a boundary"),
    ((ALL, ALL, slice(-3, None)), "only the last 3 rows are wrong: a boundary"),
    ((slice(4, None),), "wrong from image 4 on: a grid limit"),
    ((ALL, slice(3, None)), "wrong from filter 3 on"),
    ((0, 0, 0, 0), ""),
    ((5, 3, 10, 10), ""),  # the last output of all is no boundary
    ((ALL,), ""),
]


@pytest.mark.parametrize("place, reason", MISTAKES)
def test_places_have_reasons(layer, place, reason):
    x, weight, y = layer
    found = diagnose(spoil(y, place), x, weight)
    assert found.precision == "wrong" and found.reason.startswith(reason) and bool(found.reason) == bool(reason)
    assert found.wrong == np.zeros_like(y)[place].size
    first = tuple(int(axis[0]) for axis in np.nonzero(spoil(np.zeros_like(y), place)))
    assert found.first == first
    assert found.got == -1 and found.wanted == pytest.approx(y[first])
    assert f"y[{','.join(map(str, first))}]: -1 instead of {y[first]:.4g}"[:20] in found.line()


def test_rows_and_columns_together(layer):
    x, weight, y = layer
    y = spoil(spoil(y, (ALL, ALL, slice(8, None))), (ALL, ALL, ALL, slice(8, None)))
    assert diagnose(y, x, weight).reason == "only the last 3 rows and the last 3 columns are wrong: a boundary"


def test_nan_that_is_left_is_counted(layer):
    x, weight, y = layer
    found = diagnose(spoil(y, (2, 1, 4, 4), np.nan), x, weight)
    assert found.reason == "not all of the output is written: 1 NaN left" and found.largest == np.inf
    edge = diagnose(spoil(y, (ALL, ALL, ALL, slice(-1, None)), np.nan), x, weight)
    assert (
        edge.reason == f"only the last column is wrong: a boundary ({6 * 4 * 11:,} outputs were not written: NaN left)"
    )
    assert diagnose(np.full_like(y, np.nan), x, weight).reason.startswith("nothing is written")
    assert diagnose(np.zeros_like(y), x, weight).reason.startswith("the output is all zero")


def test_a_rare_small_error_is_not_half_precision(layer):
    x, weight, y = layer
    found = diagnose(spoil(y, (1, 1, 1, 1), y[1, 1, 1, 1] + 1e-3 * np.abs(y).max()), x, weight)
    assert (found.precision, found.wrong, found.first) == ("wrong", 1, (1, 1, 1, 1))


def test_other_sums_are_known(layer):
    x, weight, y = layer
    results = {
        "rows and columns of the output": y.swapaxes(2, 3),
        "rows and columns of the weights": reference.convolve(x, weight.swapaxes(2, 3)),
        "flipped": reference.convolve(x, weight[:, :, ::-1, ::-1]),
        "only the first input channel": reference.convolve(x[:, :1], weight[:, :1]),
        "only the last input channel": reference.convolve(x[:, 2:], weight[:, 2:]),
        "twice the right values": 2 * y,
    }
    for reason, result in results.items():
        assert reason in diagnose(result.astype(np.float32), x, weight).reason


@given(st.integers(0, 6 * 4 * 11 * 11 - 1), st.floats(allow_infinity=True, allow_nan=True, width=32))
def test_any_one_value_anywhere_is_found(at, value):
    rng = np.random.default_rng(3)
    x, weight = rng.integers(0, 256, (6, 3, 14, 14)).astype(np.float32), reference.weights(rng, 4, 3, 4)
    wanted = reference.convolve(x, weight)
    y = wanted.astype(np.float32)
    if abs(value - y.flat[at]) <= 1e-4 * np.abs(y).max():
        return
    y.flat[at] = value
    found = diagnose(y, x, weight, wanted)
    assert found.wrong == 1 and not found.right
    assert found.first == np.unravel_index(at, y.shape)
    assert len(found.line().splitlines()) == 1


MIB = 1 << 20


@pytest.mark.parametrize(
    "free, leaked",
    [
        ([100, 92, 84, 76], 8 * MIB),
        ([100, 60, 60, 60, 60], 0),  # taken once, and kept
        ([100, 92, 84, 84], 5 * MIB + MIB // 3),
        ([100, 100, 100], 0),
        ([100, 92], 0),
        ([100, 80, 90], 0),  # another program's
        ([], 0),
    ],
)
def test_memory_from_slice_to_slice(monkeypatch, free, leaked):
    left = [SimpleNamespace(memory_free=mib * MIB) for mib in free]
    monkeypatch.setattr(judging.devices, "cuda_devices", lambda: [left.pop(0)])
    watch = judging.MemoryWatch(SimpleNamespace(backend="gpu"), 0)
    for _ in free:
        watch()
    assert watch.leaked == leaked


def test_the_host_has_no_such_watch(monkeypatch):
    monkeypatch.setattr(judging.devices, "cuda_devices", lambda: pytest.fail("asked"))
    watch = judging.MemoryWatch(SimpleNamespace(backend="cpu"), 0)
    watch()
    assert watch.leaked == 0


def verdict(*tried, changed=0, leaked=0):
    return judging.Verdict(SimpleNamespace(name="mine.cu"), tried, changed, leaked)


def one(precision="float32", failure=""):
    found = None if failure else Diagnosis(precision, 3, 9, 5.0, 10.0, (0, 0, 0, 1), 1.0, 2.0, "a boundary")
    return trials.Tried("new0", (1, 1, 3, 3, 1, 1), found, failure, 0.0, 0.0, ())


def test_verdicts():
    assert verdict(one()).wrong == "" and verdict(one()).precision == "float32"
    half = verdict(one(), one("tf32 or half"), changed=2)
    assert (half.wrong, half.precision) == ("", "tf32 or half")  # changed predictions are counted, and no mistake
    wrong = verdict(one(), one("wrong"), changed=1234)
    assert wrong.precision == "wrong" and wrong.wrong == (
        "mine.cu is wrong: 1,234 predictions differ; layer new0: 3 of 9 outputs differ, by up to 5; the first is "
        "y[0,0,0,1]: 1 instead of 2; likely a boundary"
    )
    assert verdict(one(failure="it broke")).wrong == "mine.cu is wrong: it broke"
    assert "results differ from call to call" in verdict(one(), changed=1).wrong
    assert verdict(one(), leaked=8 * MIB).wrong == "mine.cu leaks 8 MiB of device memory at every slice of images"
