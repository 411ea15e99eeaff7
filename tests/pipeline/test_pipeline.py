"""The whole pipeline: models, both operators and modes, real and built-in data, and the output that scripts read."""

import functools
import json
import re

import numpy as np
import profiles
import pytest

from fashion_infer import infer
from fashion_infer.checkpoints import editions, zoo
from fashion_infer.inference import model
from fashion_infer.inference.predictor import Predictor
from fashion_infer.request import Request

MODELS = list(zoo.MODELS)
# Each test run draws some of the models, and `make test-all` takes all of them. `fashion-infer verify`, which .ci/run
# calls, checks all figures in all modes.
ON_DATA = profiles.drawn([(model, source) for model in MODELS for source in ("fashion-mnist", "synthetic")], 1)
WAYS = [("operator", "custom"), ("operator", "builtin")]
on_data = pytest.mark.parametrize("model, source", ON_DATA, indirect=["source"])


@pytest.fixture(scope="module", params=profiles.drawn(["fashion-mnist", "synthetic"], 1))
def source(request):
    """A source of data. Each run draws one, unless a test names it; `make test-all` takes both."""
    if request.param == "fashion-mnist":
        request.getfixturevalue("data_dir")
    return request.param


def known(source):
    """Return (model, n, correctness) for each known correctness on a data source."""
    return [(m.name, n, c) for m in zoo.MODELS.values() for n, c in m.expected[source]]


@pytest.fixture(scope="module")
def result():
    """A function that runs a model on all images of a data source in one way, and caches the result."""
    return functools.lru_cache(maxsize=None)(
        lambda model, source, mode, operator: infer(model, data=source, backend="cpu", mode=mode, operator=operator)
    )


@pytest.mark.parametrize(
    "model, source, mode, operator",
    [
        *((model, "fashion-mnist", "fused", "custom") for model in profiles.drawn(MODELS, 1)),
        *((model, "synthetic", "fused", "custom") for model in profiles.drawn(MODELS, 1)),
        *((model, source, *way) for model, source in ON_DATA for way in WAYS),
    ],
    indirect=["source"],
)
def test_published_figures_in_every_mode(model, mode, operator, source, result):
    got = result(model, source, mode, operator)
    hits = got.predictions == got.labels
    assert [(n, hits[:n].mean()) for n, _ in zoo.get(model).expected[source]] == zoo.get(model).expected[source]
    assert (got.mode, got.operator, got.n) == (mode, operator, 10000)


@on_data
def test_both_operators_make_the_same_predictions(model, source, result):
    custom, builtin = (result(model, source, "operator", operator) for operator in ("custom", "builtin"))
    assert np.array_equal(custom.predictions, builtin.predictions)
    prefix = {"custom": "new", "builtin": "convolution"}[zoo.get(model).operator]
    count = len(list(editions.convolution_shapes(editions.get(zoo.get(model).edition))))
    assert [name for name, _ in custom.op_times] == [f"{prefix}{i}" for i in range(count)] and builtin.op_times == []
    assert np.abs(custom.scores - builtin.scores).max() < 1e-4


FIVE_LINES = r"""Loading fashion-mnist data... done
Loading model... done
New Inference
Op Time: \d+\.\d{6}
Correctness: (\S+) Model: (\S+)( Data: synthetic)?
"""


def test_the_five_lines(source, run_program):
    model, n = "ece408-low", 2000
    done = run_program("run", "--model", model, "--n", n, "--data", source, "--backend", "cpu")
    assert done.returncode == 0 and done.stderr == ""
    match = re.match(FIVE_LINES, done.stdout)
    assert match, done.stdout
    expected = {(m, k): c for m, k, c in known(source)}[model, n]
    assert match.group(1) == str(expected) and match.group(2) == model
    assert bool(match.group(3)) == (source == "synthetic")
    table = done.stdout[match.end() :]
    for layer in ("new0", "activation0", "pooling0", "flatten0", "fullyconnected0", "activation1", "softmax"):
        assert layer in table
    assert "new0+activation0+pooling0" in table and "flatten0+fullyconnected0+activation1" in table


def test_the_baseline_prints_the_courses_metric(invoke, data_dir):
    code, out, _ = invoke("run", "--model", "baseline", "--backend", "cpu")
    assert code == 0
    assert out.splitlines()[:4] == [
        "Loading fashion-mnist data... done",
        "Loading model... done",
        "New Inference",
        "EvalMetric: {'accuracy': 0.8673}",
    ]
    code, out, _ = invoke("run", "--model", "baseline", "--op", "custom", "--backend", "cpu", "--n", 100)
    assert code == 0 and re.search(r"^Op Time: \d\.\d{6}\nCorrectness: 0\.\d+ Model: baseline$", out, re.M)
    code, out, _ = invoke("run", "--model", "ece408-low", "--op", "builtin", "--n", 2000)
    assert code == 0 and "Op Time" not in out and "Correctness: 0.6275 Model: ece408-low\n" in out


def test_json(invoke, source):
    code, out, err = invoke("run", "--n", "500", "--data", source, "--backend", "cpu", "--repeat", "3", "--json")
    assert code == 0 and err == ""
    got = json.loads(out)
    expected = {
        "model": "ece408-high", "n": 500, "backend": "cpu", "mode": "fused", "operator": "custom", "kernel": "auto",
        "data_source": source, "notice": None,
    }  # fmt: skip
    assert {key: got[key] for key in expected} == expected
    assert 0 < got["correctness"] < 1 and got["threads"] >= 1 and got["batch_size"] >= 1
    assert next(layer["name"] for layer in got["layers"]) == "new0+activation0+pooling0"
    for layer in got["layers"]:
        assert len(layer["seconds"]) == 3 and all(s > 0 for s in layer["seconds"])
        assert layer["custom"] == layer["operator"].startswith("New") and layer["kernel"] == "fused"
    process = got["process"]
    assert process["wall"] > 0 and process["user"] > 0 and process["system"] >= 0
    assert process["peak_memory"] > 50 << 20
    assert set(got["versions"]) == {"fashion_infer", "python", "numpy", "mxnet", "library", "cpu_isa"}


RUN = ("run", "--data", "synthetic", "--n", "2000", "--backend", "cpu")
RIGHT = dict(zoo.get("ece408-high").expected["synthetic"])[2000]


@pytest.fixture
def one_wrong(monkeypatch):
    """Roll the scores of the first image, so that a network classifies one image more or one fewer correctly."""
    real = Predictor.predict

    def predict(self, *arguments):
        scores, times = real(self, *arguments)
        scores = np.array(scores)
        scores[0] = np.roll(scores[0], 1)
        return scores, times

    monkeypatch.setattr(Predictor, "predict", predict)


def test_the_expected_correctness_is_in_the_json(invoke):
    code, out, err = invoke(*RUN, "--json")
    found = json.loads(out)
    assert code == 0 and err == "" and found["expected"] == found["correctness"] == RIGHT


def test_one_image_causes_a_notice(invoke, one_wrong):
    code, out, err = invoke(*RUN)
    assert code == 0 and "Correctness: 0.90" in out and f"Correctness: {RIGHT} " not in out
    assert err.startswith(f"fashion-infer: expected {RIGHT}") and err.count("\n") == 1


def test_a_kernel_of_ours_is_named(invoke, one_wrong):
    code, _, err = invoke(*RUN, "--kernel", "shifted")
    assert code == 0 and err.count("\n") == 1 and f"expected {RIGHT}" in err and "kernel shifted" in err


SYNTHETIC = {"data": "synthetic", "backend": "cpu", "n": 2000}


@pytest.mark.parametrize(
    "options",
    [
        {**SYNTHETIC, "n": 7},
        {**SYNTHETIC, "checkpoint": str(zoo.get("ece408-high").path)},
        {"backend": "cpu", "images": "images.npy", "labels": "labels.npy"},
    ],
)
def test_no_expected_correctness_for_other_data(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    np.save("images.npy", np.zeros((3, 28, 28), np.uint8))
    np.save("labels.npy", np.zeros(3, np.uint8))
    assert infer(**options).expected is None


def test_expected_correctness_of_original_weights():
    request = Request(weights="original")
    assert model.expected(request, "fashion-mnist", 10000) == 0.8562
    assert model.expected(request, "synthetic", 10000) is None
    assert model.expected(Request(input_size=30), "fashion-mnist", 10000) is None
    assert model.expected(Request(input_size=28), "fashion-mnist", 10000) == 0.8562
