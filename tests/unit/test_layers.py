"""The kinds of layers: the walk over a chain, and the symbols that are built from it, compared with MXNet."""

import json

import chains
import numpy as np
import pytest
from hypothesis import given, settings

from fashion_infer import _mxnet
from fashion_infer._mxnet import plugin
from fashion_infer.checkpoints import editions
from fashion_infer.errors import UsageError
from fashion_infer.graph import rewrite, symbol
from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Softmax, Tanh, walk


def test_the_walk_over_an_edition():
    edition = editions.get("fa2019")
    steps = [(step.name, step.input, step.output, step.parameters) for step in walk(edition.layers, edition.shape)]
    assert steps == [
        ("new0", (1, 70, 70), (12, 66, 66), {"new0_weight": (12, 1, 5, 5)}),
        ("activation0", (12, 66, 66), (12, 66, 66), {}),
        ("pooling0", (12, 66, 66), (12, 33, 33), {}),
        ("new1", (12, 33, 33), (24, 29, 29), {"new1_weight": (24, 12, 5, 5)}),
        ("flatten0", (24, 29, 29), (20184,), {}),
        ("fullyconnected0", (20184,), (160,), {"fullyconnected0_weight": (160, 20184), "fullyconnected0_bias": (160,)}),
        ("activation1", (160,), (160,), {}),
        ("fullyconnected1", (160,), (10,), {"fullyconnected1_weight": (10, 160), "fullyconnected1_bias": (10,)}),
        ("softmax", (10,), (10,), {}),
    ]
    assert [step.layer for step in walk(edition.layers, edition.shape)] == list(edition.layers)


def test_names_and_shapes_of_a_walk():
    first, pool, dense = walk([Convolution(3, 2), MaxPool(), Dense(4, bias=False)], (2, 6, 8), "convolution")
    assert first.name == "convolution0" and list(first.parameters) == ["convolution0_weight"]
    assert (pool.input, pool.output) == ((3, 5, 7), (3, 2, 3))
    assert dense.parameters == {"fullyconnected0_weight": (4, 18)}


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


# ---- Symbols.


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


def test_attributes_that_a_run_adds_to_nodes():
    chain = chains.Chain([Convolution(2, 3), Tanh(), Dense(4), Softmax()], (1, 6, 6))
    graph = rewrite.with_tags(json.loads(chain.symbol("custom")), "gpu", 2, "naive")
    told = {node["name"]: symbol.attributes(node) for node in graph["nodes"] if node["op"] != "null"}
    assert [values["__fops_node__"] for values in told.values()] == ["2", "3", "6", "7"]
    ours = {key: value for key, value in told["convolution0"].items() if key.startswith("__")}
    assert ours == {
        "__fops_node__": "2",
        "__fops_backend__": "gpu",
        "__fops_device__": "2",
        "__fops_kernel__": "naive",
        "__fops_layer__": "convolution0",
    }
    assert all(len([key for key in told[name] if key.startswith("__")]) == 1 for name in told if name != "convolution0")
    assert symbol.chain(graph, 2, 6) == [2, 3, 6] and symbol.chain(graph, 7, 7) == [7]


def test_random_weights_are_in_the_order_of_the_layers():
    chain = chains.course("sp2018")
    weights = chain.weights(seed=1, pixels=True)
    assert list(weights)[:3] == ["convolution0_weight", "convolution1_weight", "fullyconnected0_weight"]
    assert all(values.dtype == np.float32 for values in weights.values())
