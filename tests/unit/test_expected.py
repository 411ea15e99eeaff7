"""If a run does not have the known correctness, it prints a line on stderr and still succeeds."""

import json

import numpy as np
import pytest

from fashion_infer import infer
from fashion_infer.checkpoints import zoo
from fashion_infer.inference import model
from fashion_infer.inference.predictor import Predictor
from fashion_infer.request import Request

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
    why = "this result is wrong (`fashion-infer verify` says which models and modes are affected)"
    assert err == f"fashion-infer: expected {RIGHT}: {why}\n"


def test_a_kernel_of_ours_is_named(invoke, one_wrong):
    code, _, err = invoke(*RUN, "--kernel", "shifted")
    where = "bench conv --edition fa2017 --backend cpu --kernels shifted --against none"
    assert code == 0 and err.count("\n") == 1
    assert f"expected {RIGHT}: kernel shifted is wrong (`fashion-infer {where}` says where)" in err


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
