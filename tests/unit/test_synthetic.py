"""The built-in set is bit-identical on every machine, and resembles Fashion-MNIST."""

import hashlib
import itertools

import numpy as np
import pytest

from fashion_infer.data import synthetic
from fashion_infer.system.installation import resource_dir

# Digests of the arrays' bytes. If you change them, update the expected correctness in zoo.py too.
IMAGES_SHA256 = "e3bc32a9b83ea1e511d42c86ef439699ac6b24a686d9a42ada42903b13cf202d"
LABELS_SHA256 = "c20e8c8ca8a082e1fbd93372f11da40306cf37dc88bad1cb3309ab36aa1348f0"


@pytest.fixture(scope="module")
def built_in():
    return synthetic.load()


def _summed(image):
    """Return an image's 784 entries from its differences, which are modulo 256, to the left and to the row above."""
    rows = [list(itertools.accumulate(row)) for row in image]
    columns = [itertools.accumulate(column) for column in zip(*rows)]
    return [(entry + 128) % 256 - 128 for row in zip(*columns) for entry in row]


def _one_image(index, seed=synthetic.SEED):
    """Return the pixels and the label of image number `index`, computed with Python's integers as documented."""
    with np.load(str(resource_dir("data") / "synthetic.npz")) as stored:
        mean, differences, multipliers = (stored[key].tolist() for key in ("mean", "differences", "multipliers"))
    count = len(multipliers[0])
    generator = np.random.PCG64(seed)
    words = [int(generator.random_raw()) for _ in range((index + 1) * (1 + count))][-1 - count :]
    label = words[0] % 10
    coefficients = [sum(word.to_bytes(8, "little")) - 1020 for word in words[1:]]
    components = [_summed(image) for image in differences[label]]
    pixels = []
    for pixel in range(784):
        level = mean[label][pixel] << 12
        for k, coefficient in enumerate(coefficients):
            level += coefficient * multipliers[label][k] * components[k][pixel]
        whole, rest = divmod(level, 1 << 20)
        half = 1 << 19
        whole += rest > half or (rest == half and whole % 2 == 1)
        pixels.append(min(max(whole, 0), 255))
    return pixels, label


def test_the_bits_of_the_built_in_set(built_in):
    images, labels = built_in
    assert images.shape == (10000, 1, 28, 28) and images.dtype == np.uint8
    assert labels.shape == (10000,) and labels.dtype == np.uint8
    assert hashlib.sha256(images.tobytes()).hexdigest() == IMAGES_SHA256
    assert hashlib.sha256(labels.tobytes()).hexdigest() == LABELS_SHA256


@pytest.mark.parametrize("index", [0, 1, 257])
def test_images_follow_the_recipe(built_in, index):
    images, labels = built_in
    pixels, label = _one_image(index)
    assert label == labels[index]
    assert pixels == images[index].ravel().tolist()


@pytest.mark.parametrize("start, count", [(0, 1), (1, 0), (1999, 2), (3000, 4500), (9999, 1)])
def test_a_slice_equals_that_of_the_whole_set(built_in, start, count):
    images, labels = synthetic.draw(start, count)
    assert np.array_equal(images, built_in[0][start : start + count])
    assert np.array_equal(labels, built_in[1][start : start + count])


def test_images_continue_without_end_and_depend_on_the_seed():
    first, _ = synthetic.draw(10**12, 50)
    across, _ = synthetic.draw(10**12 - 50, 100)
    assert np.array_equal(across[50:], first)
    other, _ = synthetic.draw(10**12, 50, seed=1)
    assert not np.array_equal(other, first)
