"""The inputs of judged calls, and the comparison of outputs: correct kernels keep their class, wrong ones are found."""

import struct
import subprocess
from typing import NamedTuple

import numpy as np
import pytest
import skips
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from profiles import examples, pick

from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.judging import bound
from fashion_infer.judging.inputs import KeyedStream, Seed, random_inputs

FLOAT32, ROUNDED, HALF_SUMS, INCORRECT = bound.CLASSES


def shapes(images=40, outputs=12):
    """Return a strategy for shapes whose height and width may differ."""
    return st.builds(
        lambda b, c, m, k, high, wide: ConvolutionShape(b, c, k + high, k + wide, m, k),
        *(st.integers(1, most) for most in (images, 5, 9, 5)),
        *(st.integers(0, outputs) for _ in "hw"),
    )


def windows(x, side):
    """Return the products' data in the order of the sum: (B, 1, H-K+1, W-K+1, C K K)."""
    found = np.lib.stride_tricks.sliding_window_view(x, (side, side), axis=(2, 3)).transpose(0, 2, 3, 1, 4, 5)
    return found.reshape(*found.shape[:3], -1)[:, None]


def rounded(a, bits, how=np.rint):
    """Return float64 numbers with `bits` bits; `how` rounds."""
    fraction, exponent = np.frexp(a.astype(np.float64))
    return np.ldexp(how(fraction * 2.0**bits), exponent - bits)


def half(a):
    return a.astype(np.float16).astype(np.float64)


def exact(x, k):
    return (windows(x.astype(np.float64), k.shape[2]) * k.reshape(1, len(k), 1, 1, -1).astype(np.float64)).sum(axis=-1)


def chain(x, k, dtype=np.float32, lanes=1, backwards=False):
    """Return sums in `dtype`, in `lanes` partial sums that are added at the end."""
    products = [windows(x.astype(dtype), k.shape[2]), k.reshape(1, len(k), 1, 1, -1).astype(dtype)]
    products = [each[..., ::-1] if backwards else each for each in products]
    count = products[1].shape[-1]
    partial = [np.zeros((len(x), len(k), *products[0].shape[2:4]), dtype) for _ in range(lanes)]
    for at in range(count):
        partial[at % lanes] += products[0][..., at] * products[1][..., at]
    return sum(partial[1:], partial[0])


class Simulated(NamedTuple):
    expected: str  # the least precise class that it may have
    run: object


CORRECT = {
    "float64": Simulated(FLOAT32, exact),
    "one sum": Simulated(FLOAT32, chain),
    "backwards": Simulated(FLOAT32, lambda x, k: chain(x, k, backwards=True)),
    "eight sums": Simulated(FLOAT32, lambda x, k: chain(x, k, lanes=8)),
    "tree": Simulated(FLOAT32, lambda x, k: (windows(x, k.shape[2]) * k.reshape(1, len(k), 1, 1, -1)).sum(axis=-1)),
    "tf32, rounded": Simulated(ROUNDED, lambda x, k: exact(rounded(x, 11), rounded(k, 11))),
    "tf32, truncated": Simulated(ROUNDED, lambda x, k: exact(rounded(x, 11, np.trunc), rounded(k, 11, np.trunc))),
    "tf32, one truncated": Simulated(ROUNDED, lambda x, k: exact(x, rounded(k, 11, np.trunc))),
    "half operands": Simulated(ROUNDED, lambda x, k: exact(half(x), half(k))),
    "half operands, one sum": Simulated(ROUNDED, lambda x, k: chain(half(x), half(k))),
    "half result": Simulated(HALF_SUMS, lambda x, k: half(exact(half(x), half(k)))),
    "half sums": Simulated(HALF_SUMS, lambda x, k: chain(x, k, np.float16)),
    "eight half sums": Simulated(HALF_SUMS, lambda x, k: chain(x, k, np.float16, lanes=8)),
}  # fmt: skip


@given(shapes(), st.sampled_from(sorted(CORRECT)), st.integers(0, 2**32 - 1))
@settings(max_examples=pick(250, 10_000))
def test_correct_kernels_have_their_class(shape, name, seed):
    stream = KeyedStream(b"%d" % seed)
    inputs = random_inputs(stream, shape)
    kernel = CORRECT[name]
    y = kernel.run(*inputs).astype(np.float32)
    found = bound.compare(y, inputs, stream)
    assert found.right and bound.CLASSES.index(found.precision) <= bound.CLASSES.index(kernel.expected)
    if kernel.expected == FLOAT32:
        # On other inputs, float32 is the worst case of a plain chain.
        assert bound.compare(y, inputs, stream, random=False).precision == FLOAT32
    elif y.size >= 100 and name != "tf32, one truncated" and shape.C * shape.K > 1:
        assert found.precision != FLOAT32


@given(shapes(150, 6), st.integers(0, 2**32 - 1), st.sampled_from(["one", "nan", "image", "from"]))
@example(ConvolutionShape(300, 2, 9, 12, 4, 3), 1, "one")
@settings(max_examples=examples(40))
def test_incorrect_outputs_are_found(shape, seed, how):
    rng, stream = np.random.default_rng(seed), KeyedStream(b"%d" % seed)
    inputs = random_inputs(stream, shape)
    want = exact(*inputs)
    scale, image = np.abs(want).max(), rng.integers(shape.B)
    y = want.astype(np.float32)
    place = (image, *(rng.integers(size) for size in y.shape[1:]))
    if how == "one":
        y[place] += 0.05 * scale
    elif how == "nan":
        y[place] = np.nan
    else:
        wrong = y[slice(image, image + 1 if how == "image" else None)]
        assume(want[0, 0].size >= 9)  # the errors in fewer outputs might cancel
        wrong += rng.uniform(0.1, 0.2, wrong.shape) * scale
    found = bound.compare(y, inputs, stream)
    assert found.precision != FLOAT32
    if how == "one" and y.size < 100:  # few outputs may all be rounded
        return
    assert found.precision == INCORRECT and found.first is not None and found.first[0] == image
    if how in ("one", "nan"):
        assert found.first == place and found.wrong == 1 and found.wanted == pytest.approx(want[place])


def test_errors_that_cancel_in_sums_are_found():
    """A check that only sums outputs with random signs could miss one of the two."""
    shape = ConvolutionShape(400, 1, 9, 9, 4, 3)
    for _ in range(10):  # errors in four of 400 images, which are likely not among those compared by value
        inputs = random_inputs(KeyedStream.fresh(), shape)
        want = exact(*inputs)
        for sign in (1, -1):
            y = want.astype(np.float32)
            error = np.abs(want).max() * np.random.default_rng().uniform(0.1, 1, y[80:84, 0].shape)
            y[80:84, 1] += error
            y[80:84, 2] += sign * error
            assert not bound.compare(y, inputs, KeyedStream.fresh()).right


def test_inputs_differ_and_follow_from_the_seed():
    seed, shape = Seed.fresh(), ConvolutionShape(4, 1, 8, 8, 2, 3)
    seen = {random_inputs(seed.stream(*numbers), shape).x.tobytes() for numbers in np.ndindex(3, 3, 3)}
    assert len(seen) == 27 and Seed.fresh() != seed
    again = Seed(int(seed.hex, 16))
    assert random_inputs(again.stream(1, 2), shape).x.tobytes() == random_inputs(seed.stream(1, 2), shape).x.tobytes()


@skips.needs("openssl")
@given(st.binary(max_size=64), st.integers(1, 500))
@settings(max_examples=examples(6))
def test_the_secret_stream_is_shake128_of_key_and_counter(key, count):
    def openssl(number):
        command = ["openssl", "dgst", "-shake128", "-xoflen", str(count), "-binary"]
        return subprocess.run(command, input=key + struct.pack(">Q", number), capture_output=True, check=True).stdout

    stream = KeyedStream(key)
    assert [stream.take(count) for _ in range(2)] == [openssl(1), openssl(2)]


@pytest.mark.parametrize("channels", [1, 2])
def test_the_distribution_of_inputs(channels):
    """Means, variances and correlations of neighbours are within six standard errors of their expected values."""
    shape = ConvolutionShape(3, channels, 500, 500, 400, 11)  # more values than one block of random bytes has
    inputs, pixels = random_inputs(KeyedStream.fresh(), shape), channels == 1
    x = inputs.x.astype(np.float64).reshape(-1)
    x = (x - 127.5) / 128 if pixels else x
    assert abs(x).max() < 1 and (not pixels or (inputs.x == np.rint(inputs.x)).all())
    assert abs(x.mean()) < 6 * 0.58 / x.size**0.5 and abs(x.var() - 1 / 3) < 6 * 0.3 / x.size**0.5
    assert abs((x[1:] * x[:-1]).mean()) < 6 / 3 / x.size**0.5
    k = inputs.k.astype(np.float64).reshape(-1)
    assert abs(k.mean()) < 6 / k.size**0.5 and abs(k.var() - 1) < 6 * 1.42 / k.size**0.5
    assert abs((k**4).mean() - 3) < 6 * 9.8 / k.size**0.5
    if not pixels:  # half precision cannot represent most of these values
        assert (inputs.x.astype(np.float16) != inputs.x).mean() > 0.9
