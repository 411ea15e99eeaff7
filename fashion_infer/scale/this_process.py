"""A job's blocks in this process, one after the other: where no cluster is asked for."""

import platform
from typing import Iterable, Iterator

from .job import BlockJob
from .worker import BlockWorker, Done


def execute(job: BlockJob, missing: Iterable[int]) -> Iterator[Done]:
    """Do the blocks of these indices; as `Worker` raises."""
    worker = BlockWorker(job.spec, platform.node())
    for index in missing:
        yield worker.classify(job.blocks.block(index))
