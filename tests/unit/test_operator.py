"""The library's CPU kernels, called without MXNet, compared with NumPy in float64."""

import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import profiles
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from fashion_infer.checkpoints import editions
from fashion_infer.errors import DeviceError, UsageError
from fashion_infer.library import build, devices, kernels, op_times, thread_pool

KERNELS = [kernel.name for kernel in kernels.table("cpu")]
# For float32 sums of up to C*K*K = 1960 terms: the error is about 6e-8 times the square root of their number.
TOLERANCE = 3e-6


@st.composite
def convolutions(draw):
    c, m = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    h, w = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    k = draw(st.integers(1, min(7, h, w)))
    return draw(st.integers(1, 9)), c, h, w, m, k


@given(convolutions(), st.sampled_from(KERNELS), st.booleans(), st.integers(0, 2**32 - 1))
@settings(max_examples=profiles.examples(150))
def test_random_shapes(shape, kernel, as_pixels, seed):
    b, c, h, w, m, k = shape
    rng = np.random.default_rng(seed)
    x = reference.pixels(rng, (b, c, h, w))
    x = x if as_pixels else (x / 255 - 0.5).astype(np.float32)
    weight = reference.weights(rng, m, c, k)
    out = np.full((b, m, h - k + 1, w - k + 1), np.nan, np.float32)
    kernels.convolve(x, weight, kernel, out=out)
    # The limit is relative to the largest sum of magnitudes, because the terms of an output may cancel.
    terms = reference.convolve(np.abs(x), np.abs(weight)).max()
    assert np.abs(out - reference.convolve(x, weight)).max() < 1e-6 * max(terms, 1e-30)


def spec_layers():
    """Return (edition, C, size, M, K) of every convolution of the course."""
    return [(e.name, *shape) for e in editions.EDITIONS.values() for shape in editions.convolution_shapes(e)]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("edition, c, size, m, k", spec_layers())
def test_layers_of_the_course(edition, c, size, m, k, kernel):
    rng = np.random.default_rng(size)
    x, weight = reference.pixels(rng, (3, c, size, size)), reference.weights(rng, m, c, k)
    assert reference.relative_error(kernels.convolve(x, weight, kernel), reference.convolve(x, weight)) < TOLERANCE


def test_the_course_has_eleven_layers():
    assert [layer[1:] for layer in spec_layers()] == [
        (1, 28, 50, 5),
        (1, 64, 6, 5),
        (6, 30, 16, 5),
        (1, 72, 12, 7),
        (12, 33, 24, 7),
        (1, 48, 6, 5),
        (6, 22, 16, 5),
        (1, 70, 12, 5),
        (12, 33, 24, 5),
        (1, 86, 4, 7),
        (4, 40, 16, 7),
    ]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("batch, size", [(1, 90), (5, 28), (40, 12)])
def test_any_number_of_threads_gives_the_same_bits(threads, batch, size):
    rng = np.random.default_rng(1)
    x, weight = reference.pixels(rng, (batch, 3, size, size)), reference.weights(rng, 11, 3, 5)
    try:
        thread_pool.resize(1)
        alone = kernels.convolve(x, weight)
        thread_pool.resize(threads)
        assert thread_pool.size() == threads
        assert np.array_equal(kernels.convolve(x, weight), alone)
    finally:
        thread_pool.resize(None)


def test_large_image_in_bands():
    rng = np.random.default_rng(2)
    x, weight = reference.pixels(rng, (1, 2, 300, 1700)), reference.weights(rng, 5, 2, 7)
    assert reference.relative_error(kernels.convolve(x, weight), reference.convolve(x, weight)) < TOLERANCE


@pytest.mark.parametrize("isa", ["generic", "avx2", "avx512"])
def test_instruction_sets(isa):
    """Each instruction set gives correct results. If the processor lacks one, the library uses a lower one.

    The test runs in a separate process, because the library chooses its instruction set only once.
    """
    program = """
import sys; sys.path.insert(0, "tests")
import numpy as np, reference
from fashion_infer.library import build, kernels
rng = np.random.default_rng(3)
for b, c, size, m, k in [(4, 1, 28, 50, 5), (2, 3, 17, 7, 3), (1, 2, 4, 1, 4)]:
    x, w = reference.pixels(rng, (b, c, size, size)), reference.weights(rng, m, c, k)
    assert reference.relative_error(kernels.convolve(x, w), reference.convolve(x, w)) < 3e-6
# The kernels that auto picks: `shifted` for narrow outputs of few channels, or without AVX-512's masks.
wide = "direct" if build.cpu_isa() == "avx512" else "shifted"
chosen = {(1, 28, 5): wide, (7, 12, 5): wide, (7, 11, 5): "shifted", (7, 11, 1): "direct", (8, 11, 5): "direct"}
for (c, size, k), wanted in chosen.items():
    assert kernels.chosen_kernel((1, c, size, size), (4, c, k, k)) == wanted
print(build.cpu_isa())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "FASHION_OPS_ISA": isa, "FASHION_OPS_AMX": "off"},
        cwd=str(Path(__file__).resolve().parents[2]),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    order = ["generic", "avx2", "avx512"]
    assert order.index(done.stdout.strip()) <= order.index(isa)


def test_concurrent_callers():
    rng = np.random.default_rng(4)
    x, weight = reference.pixels(rng, (20, 1, 28, 28)), reference.weights(rng, 50, 1, 5)
    wanted, wrong = kernels.convolve(x, weight), []

    def work():
        for _ in range(20):
            if not np.array_equal(kernels.convolve(x, weight), wanted):
                wrong.append(1)

    callers = [threading.Thread(target=work) for _ in range(6)]
    [c.start() for c in callers]
    [c.join() for c in callers]
    assert not wrong


def _convolve_in_child(queue):
    x, weight = np.ones((8, 1, 9, 9), np.float32), np.ones((2, 1, 3, 3), np.float32)
    queue.put(float(kernels.convolve(x, weight).sum()))


def test_after_fork():
    """A forked child computes correctly.

    It has none of the pool's threads, so it must create its own and must not wait for its parent's.
    """
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


BAD_SHAPES = [
    ((1, 1, 4, 4), (1, 1, 5, 5), "larger than the image"),
    ((0, 1, 4, 4), (1, 1, 3, 3), "at least 1"),
    ((1, 2, 4, 4), (1, 1, 3, 3), "(B,C,H,W)"),
    ((1, 1, 4), (1, 1, 3, 3), "(B,C,H,W)"),
]


@pytest.mark.parametrize("x_shape, k_shape, words", BAD_SHAPES)
def test_bad_shapes(x_shape, k_shape, words):
    with pytest.raises(UsageError) as error:
        kernels.convolve(np.ones(x_shape, np.float32), np.ones(k_shape, np.float32))
    assert words in str(error.value) and "\n" not in str(error.value)


def test_absurd_sizes_are_refused():
    with pytest.raises(UsageError):
        kernels.chosen_kernel((2**20, 2**20, 4, 4), (1, 2**20, 3, 3))


def test_bad_out():
    x, weight = np.ones((1, 1, 6, 6), np.float32), np.ones((3, 1, 3, 3), np.float32)
    with pytest.raises(UsageError):
        kernels.convolve(x, weight, out=np.empty((1, 3, 4, 5), np.float32))


def test_an_unknown_kernel_lists_the_known_ones():
    with pytest.raises(UsageError, match=f"unknown CPU kernel 'fast'; {reference.known()}"):
        kernels.convolve(np.ones((1, 1, 6, 6)), np.ones((3, 1, 3, 3)), "fast")
    with pytest.raises(UsageError):
        kernels.check_kernel("fast", "cpu")


def test_the_kernel_that_auto_picks():
    assert kernels.chosen_kernel((1, 1, 6, 6), (3, 1, 3, 3)) == "shifted"


@pytest.mark.parametrize("threads", [-1, 1025])
def test_bad_threads(threads):
    with pytest.raises(UsageError):
        thread_pool.resize(threads)


def test_a_missing_device_is_a_one_line_error():
    try:
        found = devices.cuda_devices()
    except DeviceError as error:
        assert "\n" not in str(error) and error.exit_code == 4
        with pytest.raises(DeviceError):
            kernels.convolve(np.ones((1, 1, 6, 6)), np.ones((3, 1, 3, 3)), backend="gpu")
    else:
        assert found


def test_build_info_names_version_and_cuda():
    assert build.build_info().startswith("fashion_ops ") and "cuda" in build.build_info()
    assert build.cpu_isa() in ("generic", "avx2", "avx512")
