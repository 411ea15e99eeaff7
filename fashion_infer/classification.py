"""A user's own pictures through a network."""

from typing import Any, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import pipeline
from .data import dataset, pictures


class Classification(NamedTuple):
    """What a network says of some pictures."""

    images: np.ndarray  # (n,1,28,28) uint8, as the network saw them
    scores: np.ndarray  # (n, classes) float32, probabilities
    class_names: Tuple[str, ...]


def classify(
    paths: Sequence[str],
    model: Optional[str] = None,
    invert: Optional[bool] = None,
    checkpoint: Optional[str] = None,
    epoch: int = 1,
    op: Optional[str] = None,
    edition: Optional[str] = None,
    weights: str = "shipped",
    input_size: Optional[int] = None,
    **options: Any,
) -> Classification:
    """Read pictures (see `pictures.read`) and run a network over them (see `pipeline.load_model` and `pipeline.run`).

    Raises
    ------
    FashionInferError
        For a picture that cannot be read, and all that loading and running a model can raise.
    """
    images = np.stack([pictures.read(path, invert) for path in paths])
    net = pipeline.load_model(model, checkpoint, epoch, op, edition, weights, input_size)
    unlabelled = dataset.Images(images, np.zeros(len(images), np.uint8), "pictures", "")
    return Classification(images, pipeline.run(net, unlabelled, **options).scores, net.class_names)
