"""The kinds of layers: the walk over a chain, and the symbols that are built from it, compared with MXNet."""

import json

import chains
import numpy as np
import profiles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fashion_infer import _mxnet
from fashion_infer._mxnet import plugin
from fashion_infer.checkpoints import editions
from fashion_infer.errors import CheckpointError, UsageError
from fashion_infer.graph import input_size, symbol
from fashion_infer.graph.layers import Convolution, ConvolutionShape, Dense, Flatten, MaxPool, Relu, Tanh, walk


@pytest.mark.parametrize(
    "layers, shape",
    [
        ([Convolution(1, 5)], (1, 4, 9)),
        ([Flatten(), Convolution(1, 1)], (1, 4, 4)),
        ([MaxPool(3)], (1, 2, 9)),
        ([MaxPool(1, 3, full=True)], (1, 4, 5)),  # with 5 pixels, a third window would begin at the seventh
        ([Dense(4), MaxPool()], (1, 4, 4)),
    ],
)
def test_layers_that_do_not_fit(layers, shape):
    with pytest.raises(UsageError):
        list(walk(layers, shape))


def of_mxnet(layers, operator, softmax_label):
    """Return the chain as a symbol that is built with MXNet's own functions."""
    plugin.load_operators()
    mx = _mxnet.load()
    x, counts = mx.sym.Variable("data"), {}

    def name(base):
        counts[base] = counts.get(base, -1) + 1
        return f"{base}{counts[base]}"

    for layer in layers:
        if isinstance(layer, Convolution):
            node = name("new" if operator == "custom" else "convolution")
            sizes = {"kernel": (layer.kernel_size,) * 2, "num_filter": layer.filters, "name": node}
            weight = mx.sym.Variable(node + "_weight")
            if operator == "custom":
                x = mx.sym.New(x, weight, **sizes)
            else:
                x = mx.sym.Convolution(x, weight, no_bias=True, **sizes)
        elif isinstance(layer, Dense):
            options = {} if layer.bias else {"no_bias": True}
            x = mx.sym.FullyConnected(x, num_hidden=layer.units, name=name("fullyconnected"), **options)
        elif isinstance(layer, Tanh):
            x = mx.sym.Activation(x, act_type="tanh", name=name("activation"))
        elif isinstance(layer, Relu):
            x = mx.sym.Activation(x, act_type="relu", name=name("activation"))
        elif isinstance(layer, MaxPool):
            window, stride = (layer.size,) * 2, (layer.stride or layer.size,) * 2
            convention = {"pooling_convention": "full"} if layer.full else {}
            x = mx.sym.Pooling(x, kernel=window, stride=stride, pool_type="max", name=name("pooling"), **convention)
        elif isinstance(layer, Flatten):
            x = mx.sym.Flatten(x, name=name("flatten"))
        else:
            x = (mx.sym.SoftmaxOutput if softmax_label else mx.sym.softmax)(x, name="softmax")
    return x


@pytest.mark.parametrize("operator", ["custom", "builtin"])
@pytest.mark.parametrize("edition", editions.EDITIONS.values(), ids=list(editions.EDITIONS))
def test_the_symbol_of_an_edition_equals_mxnets(edition, operator):
    built = json.loads(symbol.build(edition.layers, edition.shape, operator))
    assert built == json.loads(of_mxnet(edition.layers, operator, softmax_label=True).tojson())


@given(chains.chains())
@settings(max_examples=60, deadline=None)
def test_the_symbol_of_a_random_chain_equals_mxnets(chain):
    for operator in ("custom", "builtin"):
        built = json.loads(symbol.build(chain.layers, chain.shape, operator, softmax_label=False))
        assert built == json.loads(of_mxnet(chain.layers, operator, softmax_label=False).tojson())


@given(chains.chains())
@settings(max_examples=60, deadline=None)
def test_shapes_equal_those_that_mxnet_infers(chain):
    network = of_mxnet(chain.layers, "builtin", softmax_label=False)
    shapes, outputs, _ = network.infer_shape(data=(3, *chain.shape))
    shapes = dict(zip(network.list_arguments(), shapes))
    steps = list(walk(chain.layers, chain.shape, "convolution"))
    parameters = {name: shape for step in steps for name, shape in step.parameters.items()}
    assert parameters == {name: shape for name, shape in shapes.items() if name != "data"}
    assert outputs == [(3, *steps[-1].output)]


mx = _mxnet.load()
plugin.load_operators()
KNOWN = [edition.input_size for edition in editions.EDITIONS.values()]


def edition_symbol(edition, operator="custom"):
    chosen = editions.get(edition)
    return symbol.build(chosen.layers, chosen.shape, operator)


def fc_width(network, size):
    """Return the number of inputs of the first dense layer as MXNet infers it, or None if the images are too small."""
    try:
        shapes = dict(zip(network.list_arguments(), network.infer_shape(data=(1, 1, size, size))[0]))
    except mx.MXNetError:
        return None
    return next(shape[1] for name, shape in shapes.items() if name.startswith("fullyconnected0_w"))


@pytest.mark.parametrize("edition", list(editions.EDITIONS))
@pytest.mark.parametrize("operator", ["custom", "builtin"])
def test_input_sizes_of_editions(edition, operator):
    text, size = edition_symbol(edition, operator), editions.get(edition).input_size
    width = fc_width(mx.sym.load_json(text), size)
    weights = {"fullyconnected0_weight": np.zeros((3, width), np.float32)}
    assert input_size.infer(json.loads(text), weights, KNOWN) == size


@st.composite
def networks(draw):
    """Draw a random network that ends with its first dense layer, and an image size, which may be too small for it."""
    x = mx.sym.Variable("data")
    for index in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["New", "Convolution", "Pooling", "tanh"]))
        k = draw(st.integers(1, 5))
        if kind == "New":
            x = mx.sym.New(x, mx.sym.Variable(f"w{index}"), kernel=str((k, k)), num_filter=str(draw(st.integers(1, 5))))
        elif kind == "Convolution":
            x = mx.sym.Convolution(
                x,
                kernel=(k, k),
                num_filter=draw(st.integers(1, 5)),
                no_bias=True,
                pad=(draw(st.integers(0, 2)),) * 2,
                stride=(draw(st.integers(1, 2)),) * 2,
                dilate=(draw(st.integers(1, 2)),) * 2,
            )
        elif kind == "Pooling":
            x = mx.sym.Pooling(
                x,
                kernel=(k, k),
                stride=(draw(st.integers(1, 3)),) * 2,
                pool_type="max",
                pooling_convention=draw(st.sampled_from(["valid", "full"])),
            )
        else:
            x = mx.sym.Activation(x, act_type="tanh")
    network = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=7, name="fullyconnected0")
    return network, draw(st.integers(10, 90))


@given(networks())
@settings(max_examples=profiles.examples(60))
def test_input_sizes_of_random_networks(drawn):
    network, size = drawn
    width = fc_width(network, size)
    if width is None:
        return
    weights = {"fullyconnected0_weight": np.zeros((7, width), np.float32)}
    found = input_size.infer(symbol.parse(network.tojson(), ""), weights, KNOWN)
    assert fc_width(network, found) == width
    assert found <= size or found in KNOWN


def size_refused(change, weights=None):
    graph = json.loads(edition_symbol("fa2017"))
    change(graph["nodes"])
    weights = {"fullyconnected0_weight": np.zeros((3, 7200))} if weights is None else weights
    with pytest.raises(CheckpointError):
        input_size.infer(graph, weights)


def test_input_sizes_that_cannot_be_derived():
    size_refused(lambda nodes: None, {"fullyconnected0_weight": np.zeros((3, 7201))})
    size_refused(lambda nodes: None, {})
    size_refused(lambda nodes: nodes[3].update(op="transpose"))
    size_refused(lambda nodes: [n.update(op="Flatten") for n in nodes if n["op"] == "FullyConnected"])
    size_refused(lambda nodes: nodes[4]["attrs"].update(kernel="(x, 2)"))


@given(st.tuples(*[st.integers(1, 4)] * 2), st.integers(4, 9), st.integers(4, 9), st.integers(1, 5), st.integers(1, 4))
def test_operations_and_bytes_of_a_convolution(sizes, height, width, filters, taps):
    """Windows of NumPy's count the multiply-adds, and its arrays the bytes."""
    shape = ConvolutionShape(*sizes, height, width, filters, taps)
    x, k = np.zeros(shape.data, np.float32), np.zeros(shape.weights, np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (taps, taps), axis=(2, 3))
    assert shape.operations == 2 * windows.size * filters
    assert shape.bytes == x.nbytes + k.nbytes + 4 * sizes[0] * filters * windows[0, 0, :, :, 0, 0].size
