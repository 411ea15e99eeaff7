"""Computes convolution outputs at random positions in float64, and the error bound of a plain float32 sum there.

The bound is |y - exact| <= 2^-24 * (4 + sqrt(n)) * sum |x||k| + the smallest normal number, where n = C K K. The cost
is small and does not depend on the batch.
"""

from typing import NamedTuple, Tuple

import numpy as np

from .records import ConvolutionShape

_POSITIONS = 256  # number of outputs to compare
_IMAGES = 6  # number of images that contain the positions
_SMALLEST = float(np.finfo(np.float32).tiny)


class Positions(NamedTuple):
    """Positions of outputs: one index per position, except `images`."""

    images: np.ndarray
    image: np.ndarray  # numbers of the images that contain the positions
    filter: np.ndarray  # indices into `images`
    row: np.ndarray
    column: np.ndarray


def positions(shape: ConvolutionShape, rng: np.random.Generator) -> Positions:
    """Draw random positions, and add the first and the last output of the batch."""
    batch, *sizes = shape.output
    images = np.unique(np.r_[0, batch - 1, rng.integers(0, batch, _IMAGES - 2)])
    at = [rng.integers(0, size, _POSITIONS) for size in (len(images), *sizes)]
    for index, size in zip(at, (len(images), *sizes)):
        index[0], index[-1] = 0, size - 1
    return Positions(images, *at)


def worst(got: np.ndarray, x: np.ndarray, weight: np.ndarray, at: Positions) -> Tuple[float, float]:
    """Return the largest error, divided by the largest output and by the bound; infinite if an output is NaN.

    `got` (n,M,OH,OW) and `x` (n,C,H,W) have only the images `at.images`.
    """
    exact, magnitude = _exact(x, weight, at)
    errors = np.abs(got[at.image, at.filter, at.row, at.column].astype(np.float64) - exact)
    errors[np.isnan(errors)] = np.inf
    bound = 2.0**-24 * (4 + np.sqrt(weight[0].size)) * magnitude + _SMALLEST
    return float(errors.max() / max(np.abs(exact).max(), _SMALLEST)), float((errors / bound).max())


def _exact(x, weight, at):
    """Compute the outputs at the positions, and for each output the sum of its products' magnitudes."""
    channels, side = np.arange(weight.shape[1])[:, None, None], np.arange(weight.shape[2])
    image, row, column = (index[:, None, None, None] for index in (at.image, at.row, at.column))
    windows = x[image, channels, row + side[:, None], column + side].astype(np.float64)
    products = windows * weight[at.filter]
    return products.sum(axis=(1, 2, 3)), np.abs(products).sum(axis=(1, 2, 3))
