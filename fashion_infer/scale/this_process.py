"""Classifies a job's blocks in this process, one after another, when no cluster is requested."""

import platform
from typing import Iterable, Iterator

from .job import BlockJob
from .worker import BlockWorker, Done


def execute(job: BlockJob, missing: Iterable[int]) -> Iterator[Done]:
    """Classify the blocks with these indices, and yield their results; raise the errors of `BlockWorker`."""
    worker = BlockWorker(job.spec, platform.node())
    for index in missing:
        yield worker.classify(job.blocks.block(index))
