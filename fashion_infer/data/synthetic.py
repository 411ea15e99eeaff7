"""Draws the built-in synthetic set: labelled 28x28 images from a small statistical model of Fashion-MNIST.

Image i depends only on the seed and i, and is the same on every machine with every NumPy since 1.17: NumPy guarantees
PCG64's raw stream, and float64 holds only integers below 2**53 and their quotients by a power of two, so all arithmetic
is exact. scripts/fit_synthetic.py creates the model's file, data/synthetic.npz.
"""

import functools

import numpy as np

from ..system.installation import resource_dir

SEED = 2017
COUNT = 10000
CLASSES = 10
SIZE = 28  # pixels per side

# Means and components are integers in units of 2**-FRACTION_BITS grey levels. With 20 bits, even the multiplier of the
# weakest component is in the hundreds (0.3% rounding error), and the largest sum is below 2**38.
FRACTION_BITS = 20
# The mean in the model's file is in units of 2**-MEAN_BITS grey levels.
MEAN_BITS = 8
# A component's coefficient is the sum of eight random bytes minus 1020, so that its mean is 0 and its variance
# 8 * (2**16 - 1) / 12.
COEFFICIENT_BYTES = 8
COEFFICIENT_MEAN = 1020
COEFFICIENT_SD = (COEFFICIENT_BYTES * (2**16 - 1) / 12) ** 0.5

# Number of images processed at a time; 2,000 images take 12.5 MB as float64.
_SLICE = 2000


def load():
    return draw(0, COUNT)


def draw(start, count, seed=SEED):
    """Return images (count,1,28,28) and labels (count,), uint8, of the stream, without drawing those before `start`."""
    if start < 0 or count < 0:
        raise ValueError(f"start and count must not be negative, got {start} and {count}")
    images = np.empty((count, SIZE * SIZE), np.uint8)
    labels = np.empty(count, np.uint8)
    for first in range(0, count, _SLICE):
        part = slice(first, min(first + _SLICE, count))
        _fill(images[part], labels[part], start + first, seed)
    return images.reshape(count, 1, SIZE, SIZE), labels


def differences(components):
    """Convert components (..., 784) int8 to second differences (..., 28, 28), which compress better."""
    images = components.reshape(*components.shape[:-1], SIZE, SIZE)
    return np.diff(np.diff(images, axis=-1, prepend=np.int8(0)), axis=-2, prepend=np.int8(0))


def _components(differences):
    images = differences.cumsum(axis=-2, dtype=np.int8).cumsum(axis=-1, dtype=np.int8)
    return images.reshape(*images.shape[:-2], SIZE * SIZE)


@functools.lru_cache(maxsize=1)
def _model():
    """Return means (10, 784) and bases (10, k, 784): float64 arrays of integers, in units of 2**-FRACTION_BITS."""
    with np.load(str(resource_dir("data") / "synthetic.npz")) as stored:
        mean = stored["mean"].astype(np.int64) << (FRACTION_BITS - MEAN_BITS)
        basis = _components(stored["differences"]).astype(np.int64) * stored["multipliers"].astype(np.int64)[:, :, None]
    return mean.astype(np.float64), basis.astype(np.float64)


def _fill(images, labels, start, seed):
    mean, basis = _model()
    # An image takes one random number for its label and one per coefficient; image i begins at number i * width.
    width = 1 + basis.shape[1]
    generator = np.random.PCG64(seed)
    generator.advance(start * width)
    raw = generator.random_raw(len(labels) * width).reshape(len(labels), width)
    labels[:] = raw[:, 0] % np.uint64(CLASSES)
    coefficients = (_byte_sums(raw[:, 1:]) - COEFFICIENT_MEAN).astype(np.float64)
    for label in range(CLASSES):
        chosen = np.flatnonzero(labels == label)
        level = coefficients[chosen].dot(basis[label])
        level += mean[label]
        level *= 2.0**-FRACTION_BITS
        np.rint(level, out=level)
        images[chosen] = np.clip(level, 0, 255, out=level)


def _byte_sums(words):
    """Return the sum of the eight bytes of each 64-bit word, int64, for any byte order of the machine."""
    # The first step adds neighbouring bytes, the second the neighbouring sums of two bytes, and the third the sums of
    # four bytes. A NumPy sum over an axis of length 8 would be several times slower.
    for bits, lane in ((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF)):
        words = (words & np.uint64(lane)) + ((words >> np.uint64(bits)) & np.uint64(lane))
    return words.astype(np.int64)
