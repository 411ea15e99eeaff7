"""Classification of the user's pictures, for the command `predict`."""

from typing import NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import pipeline
from .data import dataset, decoding
from .request import Request


class Predictions(NamedTuple):
    images: np.ndarray  # (n,1,28,28) uint8: the pictures as converted for the network
    scores: np.ndarray  # (n, classes) float32: probabilities
    class_names: Tuple[str, ...]


def predict(paths: Sequence[str], request: Request, invert: Optional[bool] = None) -> Predictions:
    """Read pictures (see `data.pictures.read`) and run the request's network on them."""
    pipeline.check(request)
    images = decoding.read(paths, invert)
    unlabelled = dataset.Images(images, np.zeros(len(images), np.uint8), "pictures", "")
    result = pipeline.run(request, images=unlabelled)
    return Predictions(images, result.scores, result.class_names)
