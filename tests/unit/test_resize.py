"""The course's resize gives the same bits as scikit-image's `warp`."""

import numpy as np
import profiles
import pytest
import reference

from fashion_infer.data import idx
from fashion_infer.data.resize import resize
from fashion_infer.errors import UsageError

SIZES = (48, 64, 70, 72)


def warped(image, size):
    transform = pytest.importorskip("skimage.transform")
    scale = 28 / size
    shift = 0.5 * scale - 0.5
    matrix = np.array([[scale, 0, shift], [0, scale, shift], [0, 0, 1]])
    map_ = transform.AffineTransform(matrix=matrix)
    out = transform.warp(image / 256.0, map_, output_shape=(size, size), order=1, mode="constant", cval=0)
    return (out * 256).astype(np.uint8)


@pytest.mark.parametrize("size", [*SIZES, 2, 27, 29, 101])
def test_random_images(size):
    rng = np.random.default_rng(size)
    images = np.concatenate(
        [
            reference.pixels(rng, (40, 1, 28, 28)),
            np.full((3, 1, 28, 28), 100, np.uint8),
            rng.integers(200, 256, (20, 1, 28, 28), dtype=np.uint8),
        ]
    )
    expected = np.stack([warped(image[0], size) for image in images])[:, None]
    assert np.array_equal(resize(images, size), expected)


@pytest.mark.parametrize("size", SIZES)
def test_the_test_set(size, data_dir):
    """Resized images of the real test set equal `warp`'s: 1,000 images drawn in each run, all in `make test-all`."""
    images, _ = idx.read_pair(data_dir)
    resized = resize(images, size)
    for index in np.random.default_rng().permutation(len(images))[: profiles.pick(1000, None)]:
        assert np.array_equal(warped(images[index, 0], size), resized[index, 0]), index


def test_the_same_size_is_the_same_array():
    images = np.zeros((2, 1, 28, 28), np.uint8)
    assert resize(images, 28) is images


@pytest.mark.parametrize("shape, size", [((2, 28, 28), 64), ((2, 1, 28, 20), 64), ((2, 1, 28, 28), 1)])
def test_invalid_shapes_and_sizes(shape, size):
    with pytest.raises(UsageError):
        resize(np.zeros(shape, np.uint8), size)
