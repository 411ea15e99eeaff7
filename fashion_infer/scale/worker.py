"""The worker of a job in one process. It holds fused networks, and classifies one block after another."""

import os
import time
from typing import Any, List, NamedTuple, Optional

import numpy as np
import pyarrow

from ..errors import DeviceError
from ..library import bindings
from ..library.fused import FusedNetwork
from ..pipeline import check_scores
from ..system.sharing import share
from ..version import __version__
from .folder import ResultFolder
from .job import ImageBlock, Spec
from .reading import Pixels, read

# Number of networks, by backend. On a GPU, other networks run while the results of one are copied and processed.
_LANES = {"cpu": 1, "gpu": 3}
_SLICE = {"cpu": 10_000, "gpu": 25_000}  # number of images per slice


class Done(NamedTuple):
    block: int  # index of the block
    images: int  # number of its images
    correct: Optional[int]  # number of predictions that equal their labels; None without labels
    node: str  # name of the node that classified it
    process: int  # id of the process that classified it
    began: float  # moments in seconds, by the node's clock
    ended: float


class BlockWorker:
    def __init__(self, spec: Spec, node: str):
        if spec.version != __version__:
            raise DeviceError(f"{node} has fashion-infer {__version__}: install {spec.version} on every node")
        self._spec, self._node, self.input_size = spec, node, spec.input_size
        self._folder = ResultFolder(spec.out, spec.identity) if spec.out else None
        if self._folder:
            self._folder.check()
        bindings.set_threads(spec.threads)
        shape = (1, spec.input_size, spec.input_size)
        self._networks = [
            FusedNetwork(spec.symbol, spec.weights, shape, spec.backend, spec.device)
            for _ in range(_LANES[spec.backend])
        ]

    def classify(self, block: ImageBlock, pixels: Optional[Pixels] = None) -> Done:
        """Classify a block: read it unless `pixels` is given, run the network, and write the block's file, if any."""
        spec, began = self._spec, time.time()
        if pixels is None:
            pixels = read(block, spec.input_size, spec.invert, spec.held)
        scores = self._scores(pixels.images)
        check_scores(scores)
        correct = None if pixels.labels is None else int((scores.argmax(axis=1) == pixels.labels).sum())
        if self._folder:
            self._folder.write(block.index, table(block, scores, spec.scores), correct)
        return Done(block.index, block.count, correct, self._node, os.getpid(), began, time.time())

    def _scores(self, images: np.ndarray) -> np.ndarray:
        size, normalisation = _SLICE[self._spec.backend], self._spec.normalisation
        found = np.empty((len(images), int(np.prod(self._networks[0].stages[-1].output))), np.float32)

        def work(network: FusedNetwork, start: int) -> None:
            some = images[start : start + size]
            network.forward(normalisation.of(some) if normalisation else some, out=found[start : start + size])

        if len(self._networks) == 1:
            for start in range(0, len(images), size):
                work(self._networks[0], start)
        else:
            share(self._networks, range(0, len(images), size), work)
        return found


def table(block: ImageBlock, scores: np.ndarray, keep: bool) -> pyarrow.Table:
    kind = np.uint8 if scores.shape[1] <= 256 else np.uint16
    found = {
        "index": pyarrow.array(np.arange(block.first, block.first + len(scores), dtype=np.int64)),
        "class": pyarrow.array(scores.argmax(axis=1).astype(kind)),
    }
    if keep:
        found["scores"] = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(scores.reshape(-1)), scores.shape[1])
    if any(part.source.name for part in block.parts):
        found["source"] = _sources(block)
    return pyarrow.table(found)


def _sources(block: ImageBlock) -> Any:
    """Return the name of each image's source, as a dictionary array, which stores the name of each part once."""
    names: List[str] = [part.source.name for part in block.parts]
    places = np.repeat(np.arange(len(names), dtype=np.int32), [part.count for part in block.parts])
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(places), pyarrow.array(names))
