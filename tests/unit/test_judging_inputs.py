"""The inputs of judged calls: streams of secret random numbers, and their distribution."""

import struct
import subprocess

import numpy as np
import pytest
import skips
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples

from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.judging.inputs import KeyedStream, Seed, random_inputs


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


@given(st.integers(0, 30))
def test_shuffled_keeps_each_item_once(count):
    assert sorted(KeyedStream.fresh().shuffled(list(range(count)))) == list(range(count))
