"""The options of a run are checked before anything is loaded, in the same way for commands and for `infer`."""

import dataclasses
import inspect
from pathlib import Path

import numpy as np
import pytest

from fashion_infer import _mxnet, devices, infer, pipeline, verification
from fashion_infer.data import dataset, synthetic
from fashion_infer.errors import CheckpointError, DeviceError, UsageError
from fashion_infer.inference import model as models
from fashion_infer.request import BlockRequest, Request


@pytest.fixture
def nothing_is_loaded(monkeypatch):
    """Fail the test if data, a model or MXNet is loaded, or a device is chosen."""

    def forbidden(*arguments, **options):
        pytest.fail("something was loaded or measured before the options were checked")

    monkeypatch.setattr(dataset, "load", forbidden)
    monkeypatch.setattr(models, "load", forbidden)
    monkeypatch.setattr(_mxnet, "load", forbidden)
    monkeypatch.setattr(devices, "choose", forbidden)


REFUSED = [
    {"n": 0},
    {"n": 10001},
    {"model": "no-such"},
    {"edition": "fa1999"},
    {"model": "ece408-high", "edition": "fa2019"},
    {"model": "baseline", "checkpoint": "x"},
    {"operator": "magic"},
    {"weights": "best"},
    {"backend": "tpu"},
    {"data": "cifar"},
    {"mode": "lazy"},
    {"precision": "int8"},
    {"precision": "fp16", "backend": "cpu"},
    {"precision": "fp16", "mode": "operator"},
    {"precision": "tf32", "kernel": "naive"},
    {"mode": "fused", "kernel": "naive"},
    {"operator": "builtin", "kernel": "naive"},
    {"batch_size": 0},
    {"repeat": 0},
    {"threads": 0},
    {"threads": 1025},
    {"input_size": 1},
    {"device": "both"},
]


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_options_are_refused_before_anything_is_loaded(options, nothing_is_loaded, invoke):
    for call in (lambda: pipeline.check(Request(**options)), lambda: infer(**options)):
        with pytest.raises(UsageError):
            call()
    names = {"operator": "op"}
    given = [f"--{names.get(name, name).replace('_', '-')}={value}" for name, value in options.items()]
    code, out, err = invoke("run", *given)
    assert code == 2 and not out and len(err.splitlines()) == 1


@pytest.mark.parametrize("options", [{"threads": 1, "n": 10000}, {"repeat": 2, "batch_size": 1}, {"threads": 1024}])
def test_options_within_their_range_are_accepted(options):
    pipeline.check(Request(**options))


def _wrong_values(field):
    types = getattr(field.type, "__args__", (field.type,))
    if field.type is bool:
        return ["", "yes", 1, [True]]
    return ["5", 1.5, [1], float("nan")] if int in types else ["", "a\0b", 1, ["x"], object()]


@pytest.mark.parametrize(
    "name, value", [(field.name, value) for field in dataclasses.fields(Request) for value in _wrong_values(field)]
)
def test_values_of_a_wrong_type_or_form(name, value):
    with pytest.raises(UsageError):
        pipeline.check(Request(**{name: value}))


def test_numpys_integers_are_accepted():
    pipeline.check(Request(n=np.int64(5), threads=np.uint8(2)))


@pytest.mark.parametrize("value", [Path("/none/such"), b"/none/such", "/none/such"])
def test_paths_are_text_or_paths(value):
    assert Request(checkpoint=value, data_dir=value) == Request(checkpoint="/none/such", data_dir="/none/such")
    with pytest.raises(CheckpointError):
        infer(checkpoint=value, data="synthetic", n=5)


@pytest.mark.parametrize("backend", ["cpu", "auto"])
def test_an_unknown_kernel_is_refused_before_anything_is_loaded(backend, nothing_is_loaded):
    with pytest.raises(UsageError):
        infer(kernel="quick", backend=backend)


def test_the_default_mode():
    assert Request().mode_or_default == "fused"
    for options in (dict(kernel="naive"), dict(operator="custom"), dict(operator="builtin")):
        assert Request(**options).mode_or_default == "operator"
        assert Request(mode="operator", **options).mode_or_default == "operator"
    assert Request(mode="fused", operator="builtin").mode_or_default == "fused"


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "naive"},
        {"operator": "builtin"},
        {"precision": "tf32"},
        {"repeat": 2},
        {"batch_size": 2},
        {"block_size": 0},
        {"n": 0},
        {"data": "fashion-mnist", "n": 10001},
    ],
    ids=str,
)
def test_options_that_block_requests_refuse(options):
    with pytest.raises(UsageError):
        BlockRequest(out="somewhere", **options).check()


def test_any_number_of_images_in_blocks():
    BlockRequest(out="somewhere", data="synthetic", n=10**12).check()
    with pytest.raises(UsageError):
        BlockRequest(data="synthetic", n=10**12).check()


def test_given_images_and_models_are_not_loaded_again(monkeypatch):
    images, labels = synthetic.draw(0, 40)
    given = dataset.Images(images, labels, "synthetic", "built in")
    request = Request("ece408-low", backend="cpu", threads=3, batch_size=16)
    model = models.load(request)
    monkeypatch.setattr(dataset, "load", lambda *a: pytest.fail("loaded"))
    monkeypatch.setattr(models, "load", lambda *a: pytest.fail("loaded"))
    calls = []
    result = pipeline.run(request.but(repeat=2), given, model, between=calls.append)
    assert result.n == 40 and np.array_equal(result.images, images) and len(result.class_names) == 10
    assert (result.threads, result.batch_size) == (3, 16)
    assert calls == [0, 1, 2] and all(len(layer.seconds) == 2 for layer in result.layers) and result.changed is None


@pytest.mark.parametrize("backend, device", [("gpu", 1), ("cpu", 0)])
def test_a_network_runs_on_the_requested_device(monkeypatch, backend, device):
    monkeypatch.setattr(pipeline, "Predictor", lambda checkpoint, **options: options)
    request, chosen = Request("ece408-low", device=1, batch_size=50), devices.Choice(backend, "cpu", None)
    options = pipeline.bind_network(request, models.load(request), chosen, 40)
    assert (options["backend"], options["device"], options["batch_size"]) == (backend, device, 40)


def test_verify_uses_the_same_pipeline(monkeypatch):
    asked = []

    def run(request, images=None, **options):
        asked.append(request)
        raise DeviceError("seen")

    monkeypatch.setattr(pipeline, "run", run)
    with pytest.raises(DeviceError, match="seen"):
        verification.verify(["ece408-low"], Request(backend="cpu", data="synthetic", threads=1))
    assert asked == [Request("ece408-low", backend="cpu", data="synthetic", threads=1, operator="custom", mode="fused")]


def test_infer_and_run_have_all_options_of_a_request(invoke):
    parameters = inspect.signature(infer).parameters
    assert parameters == inspect.signature(Request).parameters
    for text in (inspect.getdoc(infer), invoke("run", "--help")[1]):
        for field in dataclasses.fields(Request):
            assert field.metadata["help"].split(" [")[0].replace(" ", "") in "".join(text.split()), field.name
    with pytest.raises(TypeError):
        infer(side=28)
