"""`fashion-infer bench conv --grid` and `--layers`: shapes, checks, and our speed relative to a peer's."""

import json
import time

import numpy as np
import pytest
import reference

from fashion_infer.bench import grid as points
from fashion_infer.bench import layers, protocol, timing
from fashion_infer.bench import standings as standing
from fashion_infer.bench.machines import cpu
from fashion_infer.bench.records import OURS, PEER, BenchCase, ConvolutionShape, Measurement
from fashion_infer.bench.request import BenchRequest
from fashion_infer.bench.timing import Contender
from fashion_infer.errors import UsageError
from fashion_infer.library import kernels

GRID = ("bench", "conv", "--grid", "--backend", "cpu", "--batches", "1,2")


@pytest.fixture
def small(monkeypatch):
    """A grid of a few small shapes, and a peer that takes about 10 ms per pass."""
    monkeypatch.setattr(points, "CHANNELS", (1, 4))
    monkeypatch.setattr(points, "FILTERS", (4,))
    monkeypatch.setattr(points, "IMAGE_SIDES", (14,))
    monkeypatch.setattr(points, "SAMPLE", 5)
    monkeypatch.setattr(cpu.Cpu, "point_seconds", 0.1)
    monkeypatch.setattr(timing, "_PAUSE", 0)

    def peer(x, weight, threads):
        def run():
            time.sleep(0.01)
            return y

        y = reference.convolve(x, weight).astype(np.float32)
        return [Contender("cudnn", run, lambda y, picked: y[picked])]

    monkeypatch.setattr(cpu.Cpu, "convolution_peers", {"cudnn": peer})


def test_the_grid_has_all_combinations():
    every = points.all_points(points.BATCHES["gpu"])
    assert len(every) == len(set(every)) == 7 * 5 * 4 * 4 * 3
    shapes = {(p.batch, *p.shape[1:]) for p in every}
    assert (100, 128, 56, 56, 32, 7) in shapes and (points.LARGEST, 1, 14, 14, 4, 1) in shapes
    assert {p.number for p in every if p.batch == 1} == set(range(1, 561))
    assert all(p.shape.H == p.shape.W for p in every)


def test_the_largest_batch_keeps_tensors_under_2_gb():
    for point in points.all_points([points.LARGEST]):
        B, C, H, W, M, K = point.shape
        image = 4 * max(C * H * W, M * (H - K + 1) * (W - K + 1))
        assert B * image <= 2e9 < (B + 1) * image


def test_the_seed_determines_the_sample():
    every = set(points.all_points((1, 100)))
    first, again, other = (points.shuffled_points((1, 100), False, seed) for seed in (1, 1, 2))
    assert first == again != other and len(set(first)) == 300 and set(first) < every
    assert set(points.shuffled_points((1, 100), True, 3)) == every


@pytest.mark.parametrize("words", [["0"], ["1,x"], ["-3"], [""], ["all"]])
def test_invalid_batch_sizes(words):
    with pytest.raises(UsageError, match="--batches"):
        points.parse_batches(words)


def test_batch_sizes():
    assert points.parse_batches(["1, largest", "100", "1"]) == (1, "largest", 100)


def test_json_plot_and_markdown(small, invoke, tmp_path):
    names = [tmp_path / name for name in ("g.json", "g.svg", "g.md")]
    files = [word for pair in zip(("--json", "--plot", "--markdown"), names) for word in pair]
    code, out, err = invoke(*GRID, "--seed", "3", "--against", "cudnn", *files)
    assert code == 0 and not err and "5 of 5 points" in out
    result = json.loads(names[0].read_text())
    assert result["benchmark"] == "conv" and (result["seed"], result["asked"], result["full"]) == (3, 5, False)
    assert result["command"].startswith("fashion-infer bench conv --backend cpu --batches 1,2 --seed 3 --against cudnn")
    (stand,) = result["standings"]
    assert stand["points"] == 5 and stand["ahead"] == 1 and stand["behind"] == [] and len(stand["worst"]) == 5
    assert stand["geometric_mean"] > 1
    for case in result["cases"]:
        fill, ours, peer = case["rows"]
        assert fill["median_ms"] > 0 and ours["of_bound"] <= 1 and case["checked"] > 0
        assert (
            ours["faster_than"] == {"cudnn": pytest.approx(peer["median_ms"] / ours["median_ms"])}
            and 3 <= peer["runs"] <= 20
        )
    assert names[1].read_text().startswith("<svg ") and "(g.svg)" in names[2].read_text()
    assert invoke("compare", names[0], names[0])[0] == 0


def test_full_measures_the_whole_grid(small, invoke, tmp_path):
    for name in ("a", "b"):
        assert invoke(*GRID, "--full", "--against", "none", "--json", tmp_path / name)[0] == 0
    a, b = (json.loads((tmp_path / name).read_text()) for name in ("a", "b"))
    assert len(a["cases"]) == a["asked"] == 16 and a["full"]
    assert [case["shape"] for case in a["cases"]] == [case["shape"] for case in b["cases"]]
    assert a["standings"] == [] and a["command"].endswith("--grid --full")


def test_the_grid_ends_when_its_time_is_up(small, monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(protocol.time, "monotonic", lambda: next(clock))
    result = points.Grid(BenchRequest(batches=(1,), against="none", seconds=2)).measure()
    assert len(result.cases) == 2 and result.asked == 5


def test_an_incorrect_kernel_is_found(small, invoke, monkeypatch):
    real = kernels.prepare

    def prepare(*arguments, **options):
        forward = real(*arguments, **options)

        def run():
            y = forward()
            y[:, -1] *= np.float32(1 + 1e-3)
            return y

        return run

    monkeypatch.setattr(kernels, "prepare", prepare)
    code, out, err = invoke(*GRID, "--against", "none")
    assert code == 1 and "5 wrong" in out and "wrong: " in err


def test_a_peer_that_cannot_run_a_shape_is_left_out(small, invoke, monkeypatch):
    def peer(x, weight, threads):
        def run():
            raise RuntimeError("no algorithm")

        return [Contender("cudnn", run, None)]

    monkeypatch.setattr(cpu.Cpu, "convolution_peers", {"cudnn": peer})
    code, out, _ = invoke(*GRID)
    assert code == 0 and "5 of 5 points" in out and "against cudnn" not in out


def test_standings():
    def case(number, ours, peer):
        rows = [Measurement("shifted", OURS, median_ms=ours), Measurement("cudnn", PEER, median_ms=peer)]
        shape = ConvolutionShape(1, 1, 5, 5, number, 3)
        made = BenchCase("grid, 1 image", "memory", 1, 1, rows, number, shape, "shifted")
        made.rate({})
        return made

    result = points.GridResult("conv", "cpu", {}, {}, "", [1], None, {})
    result.cases = [case(number, 1.0, peer) for number, peer in enumerate((0.5, 2.0, 1.0, 4.0), 1)]
    result.cases.append(BenchCase("grid, 1 image", "memory", 1, 1, [Measurement("shifted", OURS)], 5))
    (found,) = standing.standings(result)
    assert (found.peer, len(found.ratios), found.ahead) == ("cudnn", 4, 0.75)
    assert found.geometric_mean == pytest.approx(2**0.5)
    assert [ratio.case.number for ratio in found.behind] == [1]
    assert [ratio.case.number for ratio in found.ratios] == [1, 3, 2, 4]


@pytest.mark.parametrize(
    "words",
    [
        ("--grid", "--edition", "fa2017"),
        ("--grid", "--kernels", "naive"),
        ("--grid", "--batch", "3"),
        ("--grid", "--layers", "all"),
        ("--full",),
        ("--batches", "1"),
        ("--seed", "0"),
        ("--grid", "--batches", "many"),
        ("--grid", "--against", "nobody"),
        ("--layers", "all", "--edition", "fa2017"),
    ],
    ids=" ".join,
)
def test_mistakes_are_one_line(invoke, words):
    code, out, err = invoke("bench", "conv", "--backend", "cpu", *words)
    assert code == 2 and err.count("\n") == 1 and not out


def test_layers_of_all_editions_and_of_other_networks():
    every = [(layer.C, layer.H, layer.M, layer.K, layer.images) for layer in layers.of_set("all")]
    # C, side, M, K, number of images: layers of the editions, then layers of other networks.
    wanted = [
        (1, 28, 50, 5, 10000), (1, 64, 6, 5, 10000), (6, 30, 16, 5, 10000), (1, 70, 12, 5, 10000),
        (12, 33, 24, 5, 10000), (1, 72, 12, 7, 1000), (12, 33, 24, 7, 1000), (1, 48, 6, 5, 10000),
        (6, 22, 16, 5, 10000), (1, 86, 4, 7, 10000), (4, 40, 16, 7, 10000), (1, 48, 12, 5, 10000),
        (32, 28, 64, 3, 10000), (3, 112, 64, 7, 1000), (64, 28, 64, 3, 1000), (64, 14, 128, 3, 1000),
        (32, 28, 64, 5, 1000), (128, 28, 128, 1, 1000), (16, 56, 64, 1, 1000),
    ]  # fmt: skip
    assert sorted(every) == sorted(wanted)
    assert layers.of_set("course") + layers.of_set("others") == layers.of_set("all")
    assert {layer.batch("cpu") for layer in layers.of_set("all")} == {100, 1000}


def test_layers_instead_of_editions(invoke, tmp_path):
    words = ("--layers", "others", "--kernels", "auto", "--against", "none", "--batch", "1", "--repeat", "1")
    names = [tmp_path / name for name in ("k.json", "k.md")]
    files = ("--json", names[0], "--markdown", names[1])
    code, _, _ = invoke("bench", "conv", "--backend", "cpu", *words, *files)
    assert code == 0
    result = json.loads(names[0].read_text())
    assert [case["number"] for case in result["cases"]] == list(range(1, 9)) and result["batches"] == [1]
    assert "--layers others" in result["command"] and "--edition" not in result["command"]
