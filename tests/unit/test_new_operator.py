"""The operator `New` in MXNet, compared with MXNet's own Convolution, and its refusals."""

import json

import numpy as np
import profiles
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from fashion_infer import _mxnet
from fashion_infer._mxnet import plugin
from fashion_infer.library import devices

mx = _mxnet.load()
plugin.load_operators()


def new(kernel="(3, 3)", num_filter="4", **attributes):
    return mx.sym.New(mx.sym.Variable("data"), mx.sym.Variable("w"), kernel=kernel, num_filter=num_filter, **attributes)


@given(
    st.integers(1, 9),
    st.integers(1, 12),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 16),
    st.integers(1, 7),
    st.sampled_from(["uint8", "float32"]),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=profiles.examples(60))
def test_against_mxnets_convolution(b, c, h, w, m, k, dtype, seed):
    k = min(k, h, w)
    rng = np.random.default_rng(seed)
    x, weight = reference.pixels(rng, (b, c, h, w)), reference.weights(rng, m, c, k)
    own = mx.nd.New(mx.nd.array(x, dtype=dtype), mx.nd.array(weight), kernel=str((k, k)), num_filter=str(m)).asnumpy()
    theirs = mx.nd.Convolution(
        mx.nd.array(x, dtype="float32"), mx.nd.array(weight), kernel=(k, k), num_filter=m, no_bias=True
    ).asnumpy()
    assert own.dtype == np.float32
    # The limit is relative to the largest sum of magnitudes, as in test_operator.py. Both results are float32.
    assert np.abs(own - theirs).max() < 2e-6 * max(reference.convolve(x, np.abs(weight)).max(), 1e-30)


@pytest.mark.parametrize("kernel", ["(3, 3)", "(3,3)", "[3, 3]", "3", "(3L, 3L)"])
def test_spellings_of_the_kernel(kernel):
    shapes, outputs, _ = new(kernel).infer_shape(data=(2, 5, 8, 9))
    assert shapes == [(2, 5, 8, 9), (4, 5, 3, 3)] and outputs == [(2, 4, 6, 7)]


COURSE_SYMBOL = {  # in the form of MXNet 0.11: the key is `attr`, inputs have two numbers, and there is no version
    "nodes": [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "null", "name": "new0_weight", "attr": {"kernel": "(5, 5)", "num_filter": "50"}, "inputs": []},
        {"op": "New", "name": "new0", "attr": {"kernel": "(5, 5)", "num_filter": "50"}, "inputs": [[0, 0], [1, 0]]},
        {"op": "Activation", "name": "activation0", "attr": {"act_type": "tanh"}, "inputs": [[2, 0]]},
    ],
    "arg_nodes": [0, 1],
    "heads": [[3, 0]],
}


def test_a_symbol_of_the_course_is_loaded_and_run():
    symbol = mx.sym.load_json(json.dumps(COURSE_SYMBOL))
    assert symbol.infer_shape(data=(7, 1, 28, 28))[1] == [(7, 50, 24, 24)]
    executor = symbol.simple_bind(mx.cpu(), data=(7, 1, 28, 28), grad_req="null")
    rng = np.random.default_rng(0)
    x, weight = reference.pixels(rng, (7, 1, 28, 28)), reference.weights(rng, 50, 1, 5) * 1e-3
    executor.forward(is_train=False, data=mx.nd.array(x), new0_weight=mx.nd.array(weight))
    assert np.abs(executor.outputs[0].asnumpy() - np.tanh(reference.convolve(x, weight))).max() < 1e-6


def message(action):
    with pytest.raises(mx.MXNetError) as error:
        action()
    return plugin.explain(error.value)


@pytest.mark.parametrize(
    "attributes, words",
    [
        (dict(kernel="(3, 5)"), "must be square, not (3, 5)"),
        (dict(kernel="(0, 0)"), "positive size"),
        (dict(kernel="abc"), "not 'abc'"),
        (dict(kernel="(3, 3, 3)"), "positive size"),
        (dict(num_filter="0"), "num_filter must be a positive number, not '0'"),
        (dict(num_filter="-4"), "not '-4'"),
        (dict(num_filter="many"), "not 'many'"),
        (dict(__fops_backend__="tpu"), "cpu or gpu"),
    ],
)
def test_attributes_are_checked(attributes, words):
    text = message(lambda: new(**attributes).infer_shape(data=(1, 1, 8, 8)))
    assert words in text and "\n" not in text


def test_shape_errors_name_the_node_and_its_shapes():
    tagged = new(__fops_layer__="new7")
    assert "New 'new7'" in message(lambda: tagged.infer_shape(data=(1, 1, 2, 2)))
    assert "(1,1,2,2)" in message(lambda: tagged.infer_shape(data=(1, 1, 2, 2)))
    assert "(3, 8, 8)" in message(lambda: tagged.infer_shape(data=(3, 8, 8)))
    text = message(lambda: tagged.infer_shape(data=(1, 2, 8, 8), w=(4, 1, 3, 3)))
    assert "(4, 2, 3, 3)" in text and "(4, 1, 3, 3)" in text


def test_types_are_checked():
    assert "float32 or uint8" in message(lambda: new().infer_type(data=np.float64))
    assert "weight must be float32" in message(lambda: new().infer_type(data=np.float32, w=np.float16))
    assert new().infer_type(data=np.uint8) == ([np.uint8, np.float32], [np.float32], [])


def test_unknown_kernel_and_missing_gpu():
    def run(**attributes):
        x, w = mx.nd.ones((1, 1, 8, 8)), mx.nd.ones((4, 1, 3, 3))
        return mx.nd.New(x, w, kernel="(3, 3)", num_filter="4", **attributes).asnumpy()

    assert "unknown CPU kernel 'best'" in message(lambda: run(__fops_kernel__="best"))
    try:
        devices.cuda_devices()
    except Exception:
        assert message(lambda: run(__fops_backend__="gpu", __fops_layer__="new0")).startswith("New 'new0': ")


def test_there_is_no_backward_pass():
    x, w = mx.nd.ones((1, 1, 8, 8)), mx.nd.ones((4, 1, 3, 3))
    x.attach_grad()

    def train():
        with mx.autograd.record():
            y = mx.nd.New(x, w, kernel="(3, 3)", num_filter="4")
        y.backward()
        x.grad.asnumpy()

    assert "forward pass only" in message(train)


def test_explain_uses_the_newest_message():
    message(lambda: new(kernel="(1, 2)").infer_shape(data=(1, 1, 8, 8)))
    assert "not 'x'" in message(lambda: new(num_filter="x").infer_shape(data=(1, 1, 8, 8)))


def test_explain_without_a_marker():
    assert plugin.explain(RuntimeError("a\n  b  \n")) == "b"
    assert plugin.explain(RuntimeError()) == "RuntimeError"
