"""The library's CPU kernels, called without MXNet, compared with NumPy in float64."""

import json
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import profiles
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from fashion_infer import _mxnet
from fashion_infer._mxnet import plugin
from fashion_infer.checkpoints import editions
from fashion_infer.errors import UsageError
from fashion_infer.library import devices, kernels, op_times

KERNELS = [kernel.name for kernel in kernels.table("cpu")]
# For float32 sums of up to C*K*K = 1960 terms: the error is about 6e-8 times the square root of their number.
TOLERANCE = 3e-6


def spec_layers():
    """Return (edition, C, size, M, K) of every convolution of the course."""
    return [(e.name, *shape) for e in editions.EDITIONS.values() for shape in editions.convolution_shapes(e)]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("edition, c, size, m, k", spec_layers())
def test_layers_of_the_course(edition, c, size, m, k, kernel):
    rng = np.random.default_rng(size)
    x, weight = reference.pixels(rng, (3, c, size, size)), reference.weights(rng, m, c, k)
    assert reference.relative_error(kernels.convolve(x, weight, kernel), reference.convolve(x, weight)) < TOLERANCE


def test_large_image_in_bands():
    rng = np.random.default_rng(2)
    x, weight = reference.pixels(rng, (1, 2, 300, 1700)), reference.weights(rng, 5, 2, 7)
    assert reference.relative_error(kernels.convolve(x, weight), reference.convolve(x, weight)) < TOLERANCE


@pytest.mark.parametrize("isa", ["generic", "avx2", "avx512"])
def test_instruction_sets(isa, run_python):
    """The test runs in a separate process, because the library chooses its instruction set only once."""
    program = """
import numpy as np, reference
from fashion_infer.library import bindings, kernels
rng = np.random.default_rng(3)
for b, c, size, m, k in [(4, 1, 28, 50, 5), (2, 3, 17, 7, 3), (1, 2, 4, 1, 4)]:
    x, w = reference.pixels(rng, (b, c, size, size)), reference.weights(rng, m, c, k)
    assert reference.relative_error(kernels.convolve(x, w), reference.convolve(x, w)) < 3e-6
# The kernels that auto picks: `shifted` for narrow outputs of few channels, or without AVX-512's masks.
wide = "direct" if bindings.cpu_isa() == "avx512" else "shifted"
chosen = {(1, 28, 5): wide, (7, 12, 5): wide, (7, 11, 5): "shifted", (7, 11, 1): "direct", (8, 11, 5): "direct"}
for (c, size, k), wanted in chosen.items():
    assert kernels.chosen_kernel((1, c, size, size), (4, c, k, k)) == wanted
print(bindings.cpu_isa())
"""
    done = run_python(program, FASHION_OPS_ISA=isa, FASHION_OPS_AMX="off")
    assert done.returncode == 0, done.stderr
    order = ["generic", "avx2", "avx512"]
    assert order.index(done.stdout.strip()) <= order.index(isa)


def test_concurrent_callers():
    rng = np.random.default_rng(4)
    x, weight = reference.pixels(rng, (20, 1, 28, 28)), reference.weights(rng, 50, 1, 5)
    wanted = kernels.convolve(x, weight)
    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(lambda _: np.array_equal(kernels.convolve(x, weight), wanted), range(120)))


def _convolve_in_child(queue):
    x, weight = np.ones((8, 1, 9, 9), np.float32), np.ones((2, 1, 3, 3), np.float32)
    queue.put(float(kernels.convolve(x, weight).sum()))


def test_after_fork():
    """It has none of the pool's threads, so it must create its own and must not wait for its parent's."""
    kernels.convolve(np.ones((8, 1, 9, 9), np.float32), np.ones((2, 1, 3, 3), np.float32))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_convolve_in_child, args=(queue,))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert queue.get(timeout=5) == 8 * 2 * 49 * 9


def test_log_keeps_numbers_kernels_and_order():
    op_times.drain()
    x, weight = np.ones((2, 1, 6, 6), np.float32), np.ones((3, 1, 3, 3), np.float32)
    kernels.convolve(x, weight, "naive", node=7)
    kernels.convolve(x, weight, node=2)
    kernels.convolve(x, weight)  # not logged, because it has no node number
    records = op_times.drain()
    assert [(r.first_node, r.last_node, r.kernel) for r in records] == [(7, 7, "naive"), (2, 2, "shifted")]
    assert records[0].shape == (2, 1, 6, 6, 3, 3)
    assert all(r.seconds > 0 and r.upload == r.download == 0 for r in records)
    assert op_times.drain() == []


def test_log_is_bounded_and_keeps_the_newest():
    x, weight = np.ones((1, 1, 1, 1), np.float32), np.ones((1, 1, 1, 1), np.float32)
    for i in range(65536 + 10):
        kernels.convolve(x, weight, "naive", node=i)
    records = op_times.drain()
    assert len(records) == 65536 and records[0].first_node == 10 and records[-1].last_node == 65545


@pytest.mark.parametrize(
    "x_shape, k_shape",
    [
        ((1, 1, 4, 4), (1, 1, 5, 5)),
        ((0, 1, 4, 4), (1, 1, 3, 3)),
        ((1, 2, 4, 4), (1, 1, 3, 3)),
        ((1, 1, 4), (1, 1, 3, 3)),
    ],
)
def test_bad_shapes(x_shape, k_shape):
    with pytest.raises(UsageError) as error:
        kernels.convolve(np.ones(x_shape, np.float32), np.ones(k_shape, np.float32))
    assert "\n" not in str(error.value)


def test_absurd_sizes_are_refused():
    with pytest.raises(UsageError):
        kernels.chosen_kernel((2**20, 2**20, 4, 4), (1, 2**20, 3, 3))


def test_bad_out():
    x, weight = np.ones((1, 1, 6, 6), np.float32), np.ones((3, 1, 3, 3), np.float32)
    with pytest.raises(UsageError):
        kernels.convolve(x, weight, out=np.empty((1, 3, 4, 5), np.float32))


def test_an_unknown_kernel_lists_the_known_ones():
    with pytest.raises(UsageError, match=", ".join(reference.own_kernels("cpu"))):
        kernels.convolve(np.ones((1, 1, 6, 6)), np.ones((3, 1, 3, 3)), "fast")
    with pytest.raises(UsageError):
        kernels.check_kernel("fast", "cpu")


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
    "attributes",
    [
        {"kernel": "(3, 5)"},
        {"kernel": "(0, 0)"},
        {"kernel": "abc"},
        {"kernel": "(3, 3, 3)"},
        {"num_filter": "0"},
        {"num_filter": "-4"},
        {"num_filter": "many"},
        {"__fops_backend__": "tpu"},
    ],
)
def test_attributes_are_checked(attributes):
    text = message(lambda: new(**attributes).infer_shape(data=(1, 1, 8, 8)))
    assert "\n" not in text


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


ROOT = Path(__file__).resolve().parents[2]
SETS = ("generic", "avx2")
HOUR = 3600  # time limit in seconds; `generic` is slow
RUNS = [(isa, name) for isa in SETS for name in ("test_bound.py", "test_steady.py", "test_guarded.py")]


@pytest.mark.timeout(HOUR)
@pytest.mark.parametrize("isa, name", profiles.drawn(RUNS, 1))
def test_bound_steadiness_and_accesses(isa, name):
    """Run a test file in a separate process, because the library chooses its instruction set only once."""
    options = {"FASHION_OPS_ISA": isa, "HYPOTHESIS_PROFILE": profiles.pick("default", "all")}
    command = f"-m pytest -q -x -p no:cacheprovider -o timeout={HOUR}".split()
    done = subprocess.run(
        [sys.executable, *command, str(Path(__file__).with_name(name))],
        env={**os.environ, **options},
        cwd=str(ROOT),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
