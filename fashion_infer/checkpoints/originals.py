"""Downloads the course's own weights from their public repository, and verifies their Git blob ids.

Only the weights are downloaded; the networks are built from `editions`. fa2020's weights are not in the repository, but
in public copies of that year's project: you have to copy them. fa2018's weights are not public.
"""

import os
from pathlib import Path
from typing import Dict, NamedTuple, Optional

import numpy as np

from ..data import retrieve
from ..errors import CheckpointError, DataError, UsageError
from ..graph import symbol
from ..system import paths
from . import editions, minidnn, mxnet_pair, zoo
from .checkpoint import Checkpoint, check_finite

MOST = 32 << 20  # size limit of a file in bytes; the largest original file has 14.5 MB
HOME = "https://raw.githubusercontent.com/illinois-impact/ece408_mxnet_docker/"


class Original(NamedTuple):
    branch: Optional[str]  # branch of the repository; None for a file that is not in the repository
    file: str
    blob: str  # Git blob id of the file


ORIGINALS: Dict[str, Original] = {
    "ece408-high": Original("2017fa", "ece408-high-0001.params", "c64182d9946f8992b9ac3ebf05c7785f0a6bdffc"),
    "ece408-low": Original("2017fa", "ece408-low-0001.params", "10c9360978d27d5040b16f124b83ecfe851381f3"),
    "baseline": Original("2017fa", "baseline-0001.params", "4df626fff6ca989a00fd4be9635a29fff1c5d6aa"),
    "sp2018-ece408": Original("2018sp", "ece408-0002.params", "ac8ae61a99b3914934e7e11ad06e9f5d3454bda3"),
    "sp2018-baseline": Original("2018sp", "baseline-0002.params", "dca61164f1658334e80c6fcf1df1b041cba1d4ba"),
    "fa2019-baseline": Original("2019fa", "baseline-0002.params", "50a8aa36b137390a7021692d96fc7308f3f04552"),
    "fa2019-ece408": Original("2019fa", "ece408-0002.params", "75529b22738ee0b3554ca11cc4a550f9bfc13dd8"),
    "sp2019-ece408": Original("2019sp", "ece408-0002.params", "466b781c86c2a5c69a55960da7f1573ab8bdd46f"),
    "sp2019-baseline": Original("2019sp", "baseline-0002.params", "df81993c4d3bc2601cd22e1911ddc11d5ac69b1f"),
    "fa2020": Original(None, "weights-86.bin", "5905e91e444cea2a07a5a1de05fd92e0bf53c8dd"),
}


def path(name: str) -> Path:
    if name not in ORIGINALS:
        raise UsageError(f"'{name}' has no original weights; these have: {', '.join(ORIGINALS)}")
    original = ORIGINALS[name]
    return paths.needed_cache() / "original" / (original.branch or name) / original.file


def is_here(name: str) -> bool:
    return name in ORIGINALS and paths.cache() is not None and path(name).is_file()


def fetch(name: str) -> Path:
    """Download a model's original weights into the cache, unless they are there; UsageError if they are not public."""
    target = path(name)
    original = ORIGINALS[name]
    if original.branch is None:
        _verify_copied(name, target, original)
        return target
    home = os.environ.get("FASHION_INFER_ORIGINALS", HOME).rstrip("/")
    address = f"{home}/{original.branch}/models/{original.file}"
    advice = f"copy the file to {target}"
    retrieve.fetch_file(target, [address], retrieve.git_blob, original.blob, advice, MOST)
    return target


def _verify_copied(name: str, target: Path, original: Original) -> None:
    if not target.is_file():
        raise DataError(
            f"{original.file} cannot be downloaded: many public copies of {name}'s project contain it, "
            f"in folder Project/ (Git blob {original.blob}); copy it to {target}"
        )
    found = retrieve.git_blob(target)
    if found != original.blob:
        raise DataError(f"{target} is not the course's file: its Git blob id is {found}, not {original.blob}")


def load(name: str) -> Checkpoint:
    target = path(name)
    if not target.is_file():
        raise CheckpointError(f"the weights are missing: run `fashion-infer models fetch {name} --original`")
    if retrieve.git_blob(target) != ORIGINALS[name].blob:
        raise CheckpointError(f"{target} is damaged: run `fashion-infer models fetch {name} --original` again")
    if target.suffix == minidnn.SUFFIX:
        return minidnn.load(target)
    weights = {key.partition(":")[2]: array.astype(np.float32) for key, array in mxnet_pair.read_params(target).items()}
    check_finite(weights, str(target))
    model = zoo.get(name)
    edition = editions.get(model.edition)
    text = symbol.build(edition.layers, edition.shape, model.operator)
    return Checkpoint(text, weights, {"edition": model.edition})
