"""A job from its plan to its end: what is missing is done, here or on a cluster, and all of it is counted."""

import contextlib
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set

from . import alone
from .folder import Folder
from .job import Job
from .worker import Done


class Node(NamedTuple):
    """What one machine did."""

    name: str
    processes: int
    images: int
    seconds: float  # from the beginning of its first block to the end of its last, by its own clock

    @property
    def rate(self) -> float:
        """Images a second."""
        return self.images / self.seconds if self.seconds else 0.0


class Outcome(NamedTuple):
    """A job, done."""

    images: int
    correct: Optional[int]  # predictions that are their labels; None without labels
    blocks: int
    before: int  # blocks that were there already
    nodes: List[Node]
    seconds: float  # from the first look for what is missing to the end

    @property
    def correctness(self) -> Optional[float]:
        """The share of right predictions."""
        return None if self.correct is None else self.correct / self.images


Progress = Callable[[int, int], None]  # images done by now, here and before, and nodes that did some


def classify(job: Job, address: Optional[str] = None, progress: Progress = lambda images, nodes: None) -> Outcome:
    """Do a job; where its folder has some of it, do what is missing.

    Parameters
    ----------
    job
        From `job.plan`.
    address
        Of a Ray cluster, see `nodes.connected`; None for this process alone.
    progress
        Called at the beginning and after each block.

    Raises
    ------
    FashionInferError
        What a worker raises. The blocks that are done stay.
    """
    start, tally = time.monotonic(), _Tally()
    folder = Folder(job.spec.out, job.spec.identity) if job.spec.out else None
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
        if folder:
            folder.tidy()
    correct = tally.correct if tally.labelled else None
    return Outcome(tally.images, correct, len(job.blocks), before, tally.of_nodes(), time.monotonic() - start)


def _executed(job: Job, missing: Iterator[int], address: Optional[str]) -> Iterator[Done]:
    if address is None:
        return alone.execute(job, missing)
    from . import cluster

    return cluster.execute(job, missing, address)


class _Tally:
    """What is done, counted: its memory grows with the blocks that were there, not with the images."""

    def __init__(self) -> None:
        self.images = self.correct = 0
        self.labelled = False
        self.found: Set[int] = set()
        self.nodes: Dict[str, List[Any]] = {}  # name -> processes, images, first beginning, last end

    def take(self, folder: Folder, job: Job) -> None:
        """Count what is in a folder."""
        for index in folder.kept():
            kept = folder.read(index)
            if kept is not None and index < len(job.blocks) and kept.images == job.blocks.count(index):
                self.found.add(index)
                self._count(kept.images, kept.correct)

    def add(self, done: Done) -> None:
        """Count a block."""
        self._count(done.images, done.correct)
        node = self.nodes.setdefault(done.node, [set(), 0, done.began, done.ended])
        node[0].add(done.process)
        node[1:] = [node[1] + done.images, min(node[2], done.began), max(node[3], done.ended)]

    def of_nodes(self) -> List[Node]:
        """By name."""
        return [
            Node(name, len(processes), images, ended - began)
            for name, (processes, images, began, ended) in sorted(self.nodes.items())
        ]

    def _count(self, images: int, correct: Optional[int]) -> None:
        self.images += images
        if correct is not None:
            self.labelled = True
            self.correct += correct
