"""The conclusions that `bench conv` draws, compared with ratios that were computed by hand."""

import pytest

from fashion_infer.bench import conclusions
from fashion_infer.bench.records import LIMIT, OURS, PEER, WRONG, BenchCase, BenchResult, ConvolutionShape, Measurement

SHAPE = ConvolutionShape(10, 1, 28, 28, 50, 5)


def row(name, kind, ms, spread=0.0, **values):
    times = {}
    if ms is not None:
        samples = tuple(ms + spread * (place % 5 - 2) for place in range(20))
        times = {"median_ms": ms, "min_ms": min(samples), "samples_ms": samples, "runs": 20}
    return Measurement(name, kind, **{"precision": "float32" if kind == OURS else "", **times, **values})


def result(*cases, auto="direct"):
    made = [BenchCase("fa2017", "memory", 10, 10, rows, number, SHAPE, auto) for number, rows in enumerate(cases, 1)]
    for case in made:
        case.rate({})
    return BenchResult("conv", "cpu", {}, {}, "", [10], 20, {}, cases=made)


def test_a_file_compared_with_peer_floor_and_best_kernel():
    rows = [
        row("fill", LIMIT, 1.0),
        row("direct", OURS, 2.0),
        row("half", OURS, 1.5, precision="fp16"),  # a half-precision kernel is not the best float32 kernel
        row("mine.cpp", OURS, 4.0, file="./mine.cpp"),
        row("torch", PEER, 8.0),
        row("mxnet", PEER, 6.0),
    ]
    (found,) = conclusions.conclusions(result(rows))
    assert (found.name, found.auto, found.wrong, found.cases) == ("mine.cpp", False, "", 1)
    assert found.peer == ("mxnet", 1.5) and found.percent_of_floor == 25 and found.best == ("direct", 2.0)


def test_times_of_several_layers_are_summed():
    first = [row("fill", LIMIT, 1.0), row("direct", OURS, 2.0), row("torch", PEER, 3.0), row("mxnet", PEER, 1.0)]
    second = [row("fill", LIMIT, 3.0), row("shifted", OURS, 6.0), row("direct", OURS, 8.0), row("torch", PEER, 9.0)]
    (found,) = conclusions.conclusions(result(first, second))
    assert found.auto and found.cases == 2 and found.best is None
    assert found.peer == ("torch", pytest.approx(1.2))  # 12 ms / 10 ms; mxnet did not run on both layers
    assert found.percent_of_floor == pytest.approx(40)


def test_a_file_that_is_wrong_for_one_layer():
    rows = [row("fill", LIMIT, 1.0), row("mine.cpp", OURS, 4.0, file="./mine.cpp")]
    other = [row("fill", LIMIT, 1.0), row("mine.cpp", OURS, None, file="./mine.cpp", status=WRONG, reason="why")]
    (found,) = conclusions.conclusions(result(rows, other))
    assert found.wrong == "why" and found.peer is None and found.percent_of_floor is None


def test_an_invalid_floor_is_not_used():
    rows = [row("fill", LIMIT, 1.0), row("direct", OURS, 0.5)]
    (found,) = conclusions.conclusions(result(rows))
    assert found.percent_of_floor is None
    assert conclusions.conclusions(result([row("fill", LIMIT, 1.0), row("naive", OURS, 2.0)])) == []  # auto did not run


@pytest.mark.parametrize(
    "ms, spread, beyond", [(1.9, 0.0, True), (1.9, 0.3, False), (1.99, 0.0, False), (2.0, 0.0, None), (2.1, 0.0, None)]
)
def test_whether_auto_is_the_fastest(ms, spread, beyond):
    made = result([row("direct", OURS, 2.0, spread), row("shifted", OURS, ms, spread)])
    found = conclusions.faster_than_auto(made.cases[0])
    if beyond is None:
        assert found is None
    else:
        best, ratio, is_beyond = found
        assert (best.name, is_beyond) == ("shifted", beyond) and ratio == pytest.approx(2.0 / ms)


def test_the_output_ends_with_the_conclusion(invoke):
    words = ("bench", "conv", "--backend", "cpu", "--batch", "3", "--repeat", "2", "--against", "none")
    code, out, _ = invoke(*words, "--kernels", "naive,auto")
    assert code == 0 and "(auto): correct" in out.splitlines()[-1]
