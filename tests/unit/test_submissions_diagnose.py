"""The diagnosis of incorrect outputs, on arrays with known errors."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from fashion_infer.judging import reasons
from fashion_infer.judging import verdict as judging
from fashion_infer.judging.calls import Tried
from fashion_infer.judging.diagnosis import Diagnosis, diagnose
from fashion_infer.system import process_memory


@pytest.fixture(scope="module")
def layer():
    """Data, weights and the correct output of a layer: 6 images, 4 filters, outputs of 11x11."""
    rng = np.random.default_rng(3)
    x, weight = rng.integers(0, 256, (6, 3, 14, 14)).astype(np.float32), reference.weights(rng, 4, 3, 4)
    return x, weight, reference.convolve(x, weight).astype(np.float32)


def test_the_right_output_is_float32(layer):
    x, weight, y = layer
    found = diagnose(y, x, weight)
    assert (found.precision, found.wrong, found.right, found.first) == ("float32", 0, True, None)
    assert found.line().startswith("right (float32; largest error ")


@pytest.mark.parametrize("rounded", ["weight", "both", "sums"])
def test_half_precision_is_a_separate_class(layer, rounded):
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
    ((ALL, ALL, ALL, slice(-1, None)), "border", "the last column"),
    ((ALL, ALL, ALL, slice(0, 1)), "border", "the first column"),
    ((ALL, ALL, slice(-1, None)), "border", "the last row"),
    ((ALL, ALL, slice(0, 2)), "border", "the first 2 rows"),
    ((slice(4, None),), "images_from", "image 4"),
    ((ALL, slice(3, None)), "filters_from", "filter 3"),
    ((0, 0, 0, 0), "incorrect", ""),
    ((5, 3, 10, 10), "incorrect", ""),  # the last output alone is not a boundary
    ((ALL,), "incorrect", ""),
]


@pytest.mark.parametrize("place, code, words", MISTAKES)
def test_the_place_of_errors_gives_the_reason(layer, place, code, words):
    x, weight, y = layer
    found = diagnose(spoil(y, place), x, weight)
    assert (found.precision, found.code) == ("wrong", code)
    assert words in found.reason and bool(found.reason) == bool(words)
    assert found.wrong == np.zeros_like(y)[place].size
    first = tuple(int(axis[0]) for axis in np.nonzero(spoil(np.zeros_like(y), place)))
    assert found.first == first
    assert found.got == -1 and found.wanted == pytest.approx(y[first])


def test_rows_and_columns_together(layer):
    x, weight, y = layer
    y = spoil(spoil(y, (ALL, ALL, slice(8, None))), (ALL, ALL, ALL, slice(8, None)))
    found = diagnose(y, x, weight)
    assert found.code == "border" and "last 3 rows and the last 3 columns" in found.reason


def test_outputs_that_are_not_written(layer):
    x, weight, y = layer
    found = diagnose(spoil(y, (2, 1, 4, 4), np.nan), x, weight)
    assert found.code == "not_all_written" and found.largest == np.inf
    assert diagnose(spoil(y, (ALL, ALL, ALL, slice(-1, None)), np.nan), x, weight).code == "border"
    assert diagnose(np.full_like(y, np.nan), x, weight).code == "not_written"
    assert diagnose(np.zeros_like(y), x, weight).code == "all_zero"


def test_a_rare_small_error_is_not_half_precision(layer):
    x, weight, y = layer
    found = diagnose(spoil(y, (1, 1, 1, 1), y[1, 1, 1, 1] + 1e-3 * np.abs(y).max()), x, weight)
    assert (found.precision, found.wrong, found.first) == ("wrong", 1, (1, 1, 1, 1))


def test_wrong_sums_are_recognised(layer):
    x, weight, y = layer
    swapped = weight.reshape(3, 4, 4, 4).swapaxes(0, 1)
    without_last_tap = weight.copy()
    without_last_tap[:, :, -1, -1] = 0
    results = {
        "output_transposed": y.swapaxes(2, 3),
        "weights_transposed": reference.convolve(x, weight.swapaxes(2, 3)),
        "weights_flipped": reference.convolve(x, weight[:, :, ::-1, ::-1]),
        "weights_swapped": reference.convolve(x, swapped),
        "weights_without_channel": reference.convolve(x, np.repeat(weight[:, :1], 3, 1)),
        "input_without_channel": reference.convolve(np.repeat(x[:, :1], 3, 1), weight),
        "first_channel": reference.convolve(x[:, :1], weight[:, :1]),
        "last_channel": reference.convolve(x[:, 2:], weight[:, 2:]),
        "taps_missing": reference.convolve(x, without_last_tap),
        "sum_not_reset": np.cumsum(y.astype(np.float64)).reshape(y.shape),
        "doubled": 2 * y,
    }
    for code, result in results.items():
        assert diagnose(np.ascontiguousarray(result, np.float32), x, weight).code == code


@given(st.integers(0, 6 * 4 * 11 * 11 - 1), st.floats(allow_infinity=True, allow_nan=True, width=32))
def test_one_wrong_value_is_found(at, value):
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
        ([100, 60, 60, 60, 60], 0),  # memory that was allocated once
        ([100, 92, 84, 84], 5 * MIB + MIB // 3),
        ([100, 100, 100], 0),
        ([100, 92], 0),
        ([100, 80, 90], 0),  # another program frees memory
        ([], 0),
    ],
)
def test_leaked_memory_from_slice_to_slice(monkeypatch, free, leaked):
    left = [SimpleNamespace(memory_free=mib * MIB) for mib in free]
    monkeypatch.setattr(judging.devices, "cuda_devices", lambda: [left.pop(0)])
    watch = judging.MemoryWatch(SimpleNamespace(backend="gpu"), 0)
    for _ in free:
        watch()
    assert watch.leaked == leaked


@pytest.mark.parametrize("used, leaked", [([10, 10, 10, 10], 0), ([10, 18, 26, 34], 8 * MIB)])
def test_only_this_processs_memory_counts(monkeypatch, used, leaked):
    """Only memory of this process counts, although other programs allocate 50 MiB of the device in each slice."""
    free = [SimpleNamespace(memory_free=mib * MIB) for mib in (500, 450, 400, 350)]
    listed = [
        [process_memory.ListedProcess(os.getpid(), mib * MIB), process_memory.ListedProcess(1, 1)] for mib in used
    ]
    monkeypatch.setattr(judging.devices, "cuda_devices", lambda: [free.pop(0)])
    monkeypatch.setattr(process_memory, "_listed", lambda: listed.pop(0))
    watch = judging.MemoryWatch(SimpleNamespace(backend="gpu"), 0)
    for _ in used:
        watch()
    assert watch.leaked == leaked


def test_memory_is_not_watched_on_the_cpu(monkeypatch):
    monkeypatch.setattr(judging.devices, "cuda_devices", lambda: pytest.fail("asked"))
    watch = judging.MemoryWatch(SimpleNamespace(backend="cpu"), 0)
    watch()
    assert watch.leaked == 0


def verdict(*tried, changed=0, leaked=0):
    return judging.Verdict(SimpleNamespace(name="mine.cu"), tried, changed, leaked)


def one(precision="float32", code=""):
    found = Diagnosis(precision, 3, 9, 5.0, 10.0, (0, 0, 0, 1), 1.0, 2.0, code, code and reasons.sentence(code))
    return Tried("new0", (1, 1, 3, 3, 1, 1), code, reasons.sentence(code), found)


def test_verdicts():
    assert verdict(one()).wrong == "" and verdict(one()).precision == "float32"
    half = verdict(one(), one("tf32 or half"), changed=2)
    assert (half.wrong, half.precision) == ("", "tf32 or half")  # with half precision, changed predictions are no error
    wrong = verdict(one(), one("wrong", "weights_flipped"), changed=1234)
    assert wrong.precision == "wrong" and reasons.sentence("weights_flipped") in wrong.wrong and "1,234" in wrong.wrong
    assert verdict(one("float32", "writes_after_end")).precision == "wrong"
    assert verdict(one(), changed=1).wrong
    assert verdict(one(), leaked=8 * MIB).wrong == ""  # a finding in addition to "correct"
