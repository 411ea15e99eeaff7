"""The built-in set is bit-identical on every machine, and resembles Fashion-MNIST."""

import hashlib
import itertools
import subprocess
import sys

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


@pytest.mark.parametrize("start, count", [(-1, 1), (0, -1)])
def test_negative_arguments_are_refused(start, count):
    with pytest.raises(ValueError, match="must not be negative"):
        synthetic.draw(start, count)


def test_classes_are_about_equally_frequent(built_in):
    counts = np.bincount(built_in[1], minlength=10)
    assert len(counts) == 10
    assert np.all(np.abs(counts - 1000) < 100)  # the tolerance is more than three standard deviations (30)


def test_grey_levels_are_those_of_the_dataset(built_in):
    images = built_in[0]
    # Fashion-MNIST has mean 73.1 and standard deviation 89.9, and half of its pixels are background.
    assert 65 < images.mean() < 85
    assert 75 < images.std() < 95
    assert (images == 0).mean() > 0.25
    assert images.max() == 255


def test_no_two_images_are_equal(built_in):
    assert len(np.unique(built_in[0].reshape(10000, -1), axis=0)) == 10000


def test_images_resemble_the_classes_they_are_labelled_with(built_in, data_dir):
    """As often as real images, within 0.1, the nearest class mean of real images is that of the label."""
    from fashion_infer.data import idx

    real, labels = idx.read_pair(data_dir)
    means = np.stack([real[labels == label].mean(axis=0).ravel() for label in range(10)])

    def nearest(images):
        pixels = images.reshape(len(images), -1).astype(np.float64)
        return ((means**2).sum(axis=1) - 2 * pixels.dot(means.T)).argmin(axis=1)

    of_real = (nearest(real) == labels).mean()  # 0.69 for real images
    of_drawn = (nearest(built_in[0]) == built_in[1]).mean()
    assert abs(of_drawn - of_real) < 0.1


def test_the_model_is_small():
    assert (resource_dir("data") / "synthetic.npz").stat().st_size <= 500 * 1000


def test_drawing_takes_little_time_and_memory():
    code = (
        "import resource, time; from fashion_infer.data import synthetic\n"
        "before = resource.getrusage(resource.RUSAGE_SELF)\n"
        "synthetic.load()\n"
        "after = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss - before.ru_maxrss)"
    )
    answer = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, text=True)
    seconds, kibibytes = map(float, answer.stdout.split())
    assert seconds < 1.0  # processor time of all threads
    assert kibibytes < 120 * 1024  # 7.5 MiB are the result
