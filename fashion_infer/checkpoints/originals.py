"""The course's own weights: fetched from their public repository, and verified by the ids that Git gave them.

The repository is illinois-impact/ece408_mxnet_docker on GitHub, folder models/, a branch an edition. Only the weights
are fetched: the networks are built from `editions`, with the node names of the time.
"""

import os
from pathlib import Path
from typing import Dict, NamedTuple

import numpy as np

from ..data import download
from ..errors import CheckpointError, UsageError
from ..graph import network
from . import checkpoint, params_file, zoo

HOME = "https://raw.githubusercontent.com/illinois-impact/ece408_mxnet_docker/"


class Original(NamedTuple):
    """A file of the repository, and its Git blob id."""

    branch: str
    file: str
    blob: str


ORIGINALS: Dict[str, Original] = {
    "ece408-high": Original("2017fa", "ece408-high-0001.params", "c64182d9946f8992b9ac3ebf05c7785f0a6bdffc"),
    "ece408-low": Original("2017fa", "ece408-low-0001.params", "10c9360978d27d5040b16f124b83ecfe851381f3"),
    "baseline": Original("2017fa", "baseline-0001.params", "4df626fff6ca989a00fd4be9635a29fff1c5d6aa"),
    "sp2018-baseline": Original("2018sp", "baseline-0002.params", "dca61164f1658334e80c6fcf1df1b041cba1d4ba"),
    "fa2019-baseline": Original("2019fa", "baseline-0002.params", "50a8aa36b137390a7021692d96fc7308f3f04552"),
    "fa2019-ece408": Original("2019fa", "ece408-0002.params", "75529b22738ee0b3554ca11cc4a550f9bfc13dd8"),
}


def path(name: str) -> Path:
    """Where the original weights of a model lie once fetched, in the user's cache."""
    import pooch

    if name not in ORIGINALS:
        raise UsageError(f"there are no original weights of '{name}'; there are of {', '.join(ORIGINALS)}")
    original = ORIGINALS[name]
    return Path(pooch.os_cache("fashion-infer")) / "original" / original.branch / original.file


def fetch(name: str) -> Path:
    """Download a model's original weights into the cache, unless they are there already.

    Raises
    ------
    UsageError
        For a model that the course did not ship.
    DataError
        When they cannot be had, or what comes is not the file that Git knows.
    """
    target = path(name)
    original = ORIGINALS[name]
    home = os.environ.get("FASHION_INFER_ORIGINALS", HOME).rstrip("/")
    address = f"{home}/{original.branch}/models/{original.file}"
    advice = f"put the file there by hand: {target}"
    download.fetch_file(target, [address], download.git_blob, original.blob, advice)
    return target


def load(name: str) -> checkpoint.Checkpoint:
    """A model with its original weights; CheckpointError when they have not been fetched, or do not name its layers."""
    target = path(name)
    if not target.is_file():
        raise CheckpointError(
            f"the original weights of {name} are not here: run `fashion-infer models fetch {name} --original`"
        )
    if download.git_blob(target) != ORIGINALS[name].blob:
        raise CheckpointError(f"{target} is damaged: run `fashion-infer models fetch {name} --original` again")
    weights = {key.partition(":")[2]: array.astype(np.float32) for key, array in params_file.read(target).items()}
    checkpoint.check_finite(weights, str(target))
    model = zoo.get(name)
    return checkpoint.Checkpoint(network.build(model.edition, model.operator), weights, {"edition": model.edition})
