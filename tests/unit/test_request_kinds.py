"""A request's values of another kind than it takes: refused, not taken for something else."""

from pathlib import Path

import numpy as np
import pytest

from fashion_infer import infer
from fashion_infer.errors import CheckpointError, UsageError
from fashion_infer.request import Request

PATHS = ("checkpoint", "data_dir", "kernel", "images", "labels")
TEXTS = ("model", "backend", "operator", "edition", "weights", "data", "mode", "precision", "kernel_format", *PATHS)
NUMBERS = ("n", "epoch", "input_size", "device", "batch_size", "threads", "repeat")
FLAGS = ("trust_symbol",)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("value", ["", "a\0b", 1, ["x"], object()])
def test_texts(name, value):
    with pytest.raises(UsageError, match=f"^{name} (is empty|has a zero byte|must be text)"):
        Request(**{name: value}).check()


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["5", 1.5, [1], float("nan")])
def test_numbers(name, value):
    with pytest.raises(UsageError, match=f"^{name} must be a (whole number|GPU's index)"):
        Request(**{name: value}).check()


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", ["", "yes", 1, [True]])
def test_flags(name, value):
    with pytest.raises(UsageError, match=f"^{name} must be True or False"):
        Request(**{name: value}).check()


def test_every_field_is_of_one_kind():
    assert {*TEXTS, *NUMBERS, *FLAGS} == set(Request.__dataclass_fields__)


def test_numbers_of_numpy():
    Request(n=np.int64(5), threads=np.uint8(2)).check()


@pytest.mark.parametrize("value", [Path("/none/such"), b"/none/such"])
def test_paths(value):
    request = Request(checkpoint=value, data_dir=value)
    assert request.checkpoint == request.data_dir == "/none/such"
    with pytest.raises(CheckpointError, match="no checkpoint at /none/such"):
        infer(checkpoint=value, data="synthetic", n=5)


@pytest.mark.parametrize("options", [{"weights": "x"}, {"data": "mnist"}, {"input_size": 0}, {"checkpoint": ""}])
def test_what_once_meant_the_default(options):
    with pytest.raises(UsageError):
        infer(n=5, **options)
