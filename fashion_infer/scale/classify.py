"""Runs a job: classifies the missing blocks, in this process or on a cluster, and adds up the results of all blocks."""

import contextlib
import platform
import time
from typing import Any, Callable, ContextManager, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

from .. import devices
from ..data import dataset
from ..inference.model import LoadedModel
from ..request import BlockRequest
from . import cluster, nodes, sources
from . import job as jobs
from .folder import ResultFolder
from .job import BlockJob
from .sources import Source
from .worker import BlockWorker, Done


class NodeShare(NamedTuple):
    name: str
    processes: int  # number of its processes that classified blocks
    images: int
    seconds: float  # time from the beginning of its first block to the end of its last block, by the machine's clock

    @property
    def rate(self) -> float:
        return self.images / self.seconds if self.seconds else 0.0


class BatchOutcome(NamedTuple):
    model: str  # the model's label
    data_source: str  # "fashion-mnist", "synthetic", "own" or "files"
    images: int
    correct: Optional[int]  # number of predictions that equal their labels; None without labels
    blocks: int
    before: int  # number of blocks whose results were already in the folder
    nodes: List[NodeShare]
    seconds: float  # time from the first search for missing blocks to the end

    @property
    def correctness(self) -> Optional[float]:
        return None if self.correct is None else self.correct / self.images

    def as_dict(self) -> Dict[str, Any]:
        return {
            "model": self.model,
            "data_source": self.data_source,
            "n": self.images,
            "correctness": self.correctness,
            "seconds": self.seconds,
            "blocks": self.blocks,
            "blocks_before": self.before,
            "nodes": [{**node._asdict(), "images_per_second": node.rate} for node in self.nodes],
        }


# Function that is called with the number of classified images, including those of earlier runs, and the number of nodes
# that have finished a block.
Progress = Callable[[int, int], None]
# Function that is called with the total number of images, and returns a context that shows progress.
Bar = Callable[[int], ContextManager[Progress]]


@contextlib.contextmanager
def no_bar(images: int) -> Iterator[Progress]:
    yield lambda images, nodes: None


def execute(
    request: BlockRequest,
    images: Optional[dataset.Images],
    model: LoadedModel,
    files: Optional[Sequence[Source]] = None,
    invert: Optional[bool] = None,
    bar: Bar = no_bar,
) -> BatchOutcome:
    """Classify a request's images in blocks, on the Ray cluster that it names or in this process. `files` (from
    `sources.of`) replace `images`; without both, the built-in set is drawn. Finished blocks are kept on an error."""
    held = None
    if files is not None:
        of, data_source = files, "files"
    elif images is not None:
        of, data_source, held = [sources.held(images.images)], images.source, (images.images, images.labels)
    else:
        of, data_source = [sources.drawn(request.n or dataset.TEST_SIZE)], dataset.SYNTHETIC
    jobs.plan(request.but(backend="cpu"), model, of, invert, held)  # raises errors of the plan before Ray starts
    with nodes.connected(request.ray) if request.ray else contextlib.nullcontext():
        job = jobs.plan(_placed(request), model, of, invert, held)
        with bar(job.blocks.images) as progress:
            return classify(job, request.ray, progress)._replace(data_source=data_source)


def _placed(request: BlockRequest) -> BlockRequest:
    """Return the request with "auto" replaced by "gpu" if this machine, or the cluster, has a GPU, else by "cpu"."""
    if request.backend != "auto":
        return request
    if request.ray is None:
        return request.but(backend=devices.choose("auto", request.device, "fused").backend)
    return request.but(backend="gpu" if nodes.shares("gpu", 1) else "cpu")


def classify(
    job: BlockJob, address: Optional[str] = None, progress: Progress = lambda images, nodes: None
) -> BatchOutcome:
    """Classify those blocks of a job that have no results yet, here or on a cluster. An error keeps finished blocks."""
    start, tally = time.monotonic(), _Tally()
    folder = ResultFolder(job.spec.out, job.spec.identity) if job.spec.out else None
    with folder.claimed(job.facts) if folder else contextlib.nullcontext():
        if folder:
            tally.take(folder, job)
        progress(tally.images, 0)
        before = len(tally.found)
        if before < len(job.blocks):
            missing = (index for index in range(len(job.blocks)) if index not in tally.found)
            for done in _executed(job, missing, address):
                tally.add(done)
                progress(tally.images, len(tally.nodes))
    return BatchOutcome(
        model=job.model.label,
        data_source="",
        images=tally.images,
        correct=tally.correct if tally.labelled else None,
        blocks=len(job.blocks),
        before=before,
        nodes=tally.of_nodes(),
        seconds=time.monotonic() - start,
    )


def _executed(job: BlockJob, missing: Iterator[int], address: Optional[str]) -> Iterator[Done]:
    if address is None:
        worker = BlockWorker(job.spec, platform.node())
        return (worker.classify(job.blocks.block(index)) for index in missing)
    return cluster.execute(job, missing, address)


class _Tally:
    def __init__(self) -> None:
        self.images = self.correct = 0
        self.labelled = False
        self.found: Set[int] = set()
        # Key: a node's name. Value: ids of its processes, number of images, start of its first block, end of its last.
        self.nodes: Dict[str, List[Any]] = {}

    def take(self, folder: ResultFolder, job: BlockJob) -> None:
        for index in folder.kept():
            kept = folder.read(index)
            if kept is not None and index < len(job.blocks) and kept.images == job.blocks.count(index):
                self.found.add(index)
                self._count(kept.images, kept.correct)

    def add(self, done: Done) -> None:
        self._count(done.images, done.correct)
        node = self.nodes.setdefault(done.node, [set(), 0, done.began, done.ended])
        node[0].add(done.process)
        node[1:] = [node[1] + done.images, min(node[2], done.began), max(node[3], done.ended)]

    def of_nodes(self) -> List[NodeShare]:
        return [
            NodeShare(name, len(processes), images, ended - began)
            for name, (processes, images, began, ended) in sorted(self.nodes.items())
        ]

    def _count(self, images: int, correct: Optional[int]) -> None:
        self.images += images
        if correct is not None:
            self.labelled = True
            self.correct += correct
