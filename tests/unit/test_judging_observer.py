"""What a kernel file computes in a run: all outputs of all slices, and device memory that is not freed."""

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from test_judging_bound import exact

from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.judging import judge, observer
from fashion_infer.judging.calls import Cause
from fashion_infer.judging.inputs import KeyedStream, random_inputs
from fashion_infer.judging.verdict import ShapeVerdict, Verdict
from fashion_infer.system import process

SHAPE = ConvolutionShape(20, 1, 12, 12, 3, 5)
FILE = SimpleNamespace(name="mine.cu", path=Path("mine.cu"))


def observed(monkeypatch, change=lambda start, y: y, again=None, slices=3):
    """Observe a run of some slices of SHAPE's images; return the verdict after the layer alone was correct."""
    start = 0

    def tensors(count):
        inputs = random_inputs(KeyedStream.fresh(), SHAPE._replace(B=count))
        return [("new0", *inputs, change(start, exact(*inputs).astype(np.float32)))]

    seen = observer.RunObserver(SimpleNamespace(backend="cpu", file=FILE, device=0), tensors)
    for start in range(0, slices * SHAPE.B, SHAPE.B):
        seen(start, SHAPE.B)
    alone = ShapeVerdict("new0", SHAPE._replace(B=3), None, "float32")
    monkeypatch.setattr(judge, "check_layers", lambda *given, **options: Verdict(FILE, (again or alone,)))
    return seen.verdict(Verdict(FILE, (alone,)), changed=2)


def test_a_correct_run(monkeypatch):
    found = observed(monkeypatch)
    assert found.right and found.changed == 2 and found.shapes[0].shape.B == 3 * SHAPE.B


@pytest.mark.parametrize("value", [0, np.nan])
def test_one_wrong_output_of_a_late_slice(monkeypatch, value):
    def change(start, y):
        if start == 40:
            y[7, 1, 2, 3] = value
        return y

    found = observed(monkeypatch, change)
    assert not found.right and found.shapes[0].code == "network_data" and found.shapes[0].precision == "incorrect"
    assert found.shapes[0].cause.details["image"] == 47 and found.shapes[0].comparison.first == (7, 1, 2, 3)
    again = ShapeVerdict("new0", SHAPE, Cause("many_images", {"right": 3, "wrong": 20}), "incorrect")
    assert observed(monkeypatch, change, again).shapes[0].code == "many_images"


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
@pytest.mark.parametrize("by_process", [False, True])
def test_leaked_memory_from_slice_to_slice(monkeypatch, free, leaked, by_process):
    """If this process's memory is known, other programs do not count."""
    left = list(free)
    others = iter(range(0, 10_000, 50))

    def device():
        now = left.pop(0)
        listed = [(os.getpid(), (1000 - now) * MIB), (1, 1)]
        monkeypatch.setattr(process, "_listed_processes", lambda: listed if by_process else [])
        return [SimpleNamespace(memory_free=(now - (next(others) if by_process else 0)) * MIB)]

    monkeypatch.setattr(observer.devices, "cuda_devices", device)
    seen = observer.RunObserver(SimpleNamespace(backend="gpu", file=FILE, device=0), lambda count: [])
    for number, _ in enumerate(free):
        seen(number, 1)
    assert seen.leaked == leaked
