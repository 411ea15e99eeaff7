"""Networks are bound and run, compared with NumPy in float64 and MXNet's operators; what does not fit is refused."""

import json

import hostile_checkpoints
import numpy as np
import pytest
import reference

from fashion_infer.checkpoints import editions
from fashion_infer.errors import CheckpointError, DeviceError, UsageError
from fashion_infer.graph import layers, rewrite, symbol
from fashion_infer.inference import predictor
from fashion_infer.library import kernels


def random_checkpoint(edition="fa2017", operator="custom", seed=0):
    """Return the edition's network with random weights, so small that tanh does not saturate."""
    chosen = editions.get(edition)
    found = hostile_checkpoints.network(operator, seed=seed, layers=chosen.layers, shape=chosen.shape)
    return found._replace(attributes={"edition": edition})


@pytest.fixture(scope="module")
def images():
    return reference.pixels(np.random.default_rng(9), (23, 1, 28, 28))


@pytest.fixture(scope="module")
def network():
    return random_checkpoint()


@pytest.mark.parametrize("kernel", ["auto", "naive", "shifted", "direct"])
def test_against_float64(network, images, kernel):
    scores, times = predictor.Predictor(network, kernel=kernel).predict(images)
    assert scores.dtype == np.float32 and scores.shape == (23, 10)
    wanted = reference.forward(editions.get("fa2017").layers, network.weights, images)
    assert np.abs(scores - wanted).max() < 2e-6
    chosen = kernels.chosen_kernel((1, 1, 28, 28), (50, 1, 5, 5))
    assert times[0].kernel == (chosen if kernel == "auto" else kernel)


@pytest.mark.parametrize("batch_size", [1, 7, 23, 100])
def test_slices_that_do_not_divide_n(network, images, batch_size):
    whole, _ = predictor.Predictor(network).predict(images)
    sliced, times = predictor.Predictor(network, batch_size=batch_size).predict(images)
    assert np.abs(whole - sliced).max() < 1e-6
    assert all(t.median > 0 for t in times)


def test_layers_have_names_and_times(network, images):
    _, times = predictor.Predictor(network, batch_size=10).predict(images)
    assert [(t.name, t.operator) for t in times] == reference.FA2017_NODES
    assert times[0].custom and times[0].kernel and not times[1].custom and times[1].kernel is None
    assert all(0 < t.median < 10 for t in times)


@pytest.mark.parametrize("edition", [name for name in editions.EDITIONS if name != "fa2017"])
def test_both_operators_agree_with_two_convolutions(edition):
    size = editions.get(edition).input_size
    x = reference.pixels(np.random.default_rng(1), (3, 1, size, size))
    custom = predictor.Predictor(random_checkpoint(edition), (1, size, size))
    assert custom.custom_layers == ["new0", "new1"]
    builtin = predictor.Predictor(random_checkpoint(edition), (1, size, size), operator="builtin")
    assert np.abs(custom.predict(x)[0] - builtin.predict(x)[0]).max() < 2e-6


@pytest.mark.parametrize("mode", ["operator", "fused"])
def test_relu_and_a_pool_in_ceil_mode(mode):
    edition, network = editions.get("fa2020"), random_checkpoint("fa2020")
    x = reference.pixels(np.random.default_rng(2), (5, *edition.shape))
    scores, times = predictor.Predictor(network, edition.shape, mode=mode).predict(x)
    assert np.abs(scores - reference.forward(edition.layers, network.weights, x)).max() < 2e-6
    nodes = [name for time in times for name in time.name.split("+")]
    assert nodes == [step.name for step in layers.walk(edition.layers, edition.shape)]


def test_images_of_another_shape(network, images):
    bound = predictor.Predictor(network)
    with pytest.raises(UsageError):
        bound.predict(images[:, :, :20])
    with pytest.raises(UsageError):
        bound.predict(images[:0])
    with pytest.raises(UsageError):
        predictor.Predictor(network, batch_size=0)
    with pytest.raises(CheckpointError):
        predictor.Predictor(network, input_shape=(1, 4, 4))


def refusal_of(network, **weights):
    merged = {k: v for k, v in dict(network.weights, **weights).items() if v is not None}
    with pytest.raises(CheckpointError) as error:
        predictor.Predictor(network._replace(weights=merged))
    return str(error.value)


def test_weights_that_do_not_fit(network):
    assert "fullyconnected0_bias" in refusal_of(network, fullyconnected0_bias=None)
    assert "new0_weight" in refusal_of(network, new0_weight=np.ones((50, 1, 3, 3), np.float32))


def test_a_failing_operator_is_a_one_line_error(network, images, monkeypatch):
    monkeypatch.setattr(predictor.kernels, "check_kernel", lambda *a: None)
    with pytest.raises(DeviceError) as error:
        predictor.Predictor(network, kernel="quick").predict(images)
    assert "new0" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "change", [{"stride": "(2, 2)"}, {"pad": "(1, 1)"}, {"num_group": "2"}, {"dilate": "(2, 1)"}, {"no_bias": "False"}]
)
def test_convolutions_that_new_does_not_support(change):
    graph = json.loads(random_checkpoint("fa2017", "builtin").symbol)
    node = next(n for n in graph["nodes"] if n["op"] == "Convolution")
    symbol.attributes(node).update(change)
    with pytest.raises(CheckpointError):
        rewrite.with_operator(graph, "custom")
