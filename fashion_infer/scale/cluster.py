"""Classifies a job's blocks on a Ray cluster: Ray Data sends blocks to workers, one per GPU or one per group of cores.

A GPU classifies faster than one core reads, so for GPUs, tasks on all cores read the images, and pass the pixels
through Ray's object store. Ray Data delays these tasks when the store is full.
"""

import pickle
import platform
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import pyarrow

from ..errors import DeviceError, FashionInferError
from . import nodes
from .job import BlockJob, ImageBlock, Spec, chunks
from .reading import Pixels, read
from .worker import BlockWorker, Done

_AT_ONCE = 10_000  # number of blocks that Ray gets at a time, which limits the memory of the calling process
_STUCK = 60.0  # seconds without a finished block, after a node has died, until the job is given up
_AHEAD = 2  # number of blocks that a worker has at a time, so that it does not wait for the next one
_TRIES = 3  # number of times that a block is tried if its worker dies, because the block may be the cause


def execute(
    job: BlockJob, missing: Iterable[int], address: str, separate_readers: Optional[bool] = None, tries: int = _TRIES
) -> Iterator[Done]:
    """Classify the missing blocks, and yield each result once; DeviceError if a block fails `tries` times."""
    spec = job.spec._replace(threads=job.spec.threads or (1 if job.spec.backend == "cpu" else None))
    with nodes.connected(address), nodes.explained():
        for some in chunks(missing, _AT_ONCE):
            left = set(some)
            while left:
                before = len(left)
                for done in _pass(spec, [job.blocks.block(index) for index in sorted(left)], separate_readers, tries):
                    if done.block in left:  # the result of a block that Ray ran again may arrive twice
                        left.remove(done.block)
                        yield done
                if len(left) == before:
                    raise DeviceError("Ray finished no block: see its logs in /tmp/ray")


def _pass(spec: Spec, blocks: Sequence[ImageBlock], separate_readers: Optional[bool], tries: int) -> Iterator[Done]:
    """Classify blocks on as many workers as fit, and yield the results. Those of blocks whose node died are missing."""
    import ray

    count = nodes.shares(spec.backend, spec.threads or 1)
    if not count:
        what = "no GPU" if spec.backend == "gpu" else f"no node with {spec.threads} free CPUs"
        raise DeviceError(f"the Ray cluster has {what}")
    watch, shared = nodes.Watch(_STUCK), [ray.put(spec)]
    data = _stream(spec, (shared, watch.register, tries), blocks, min(count, len(blocks)), separate_readers)
    with watch.looking():
        # Iterate in this thread, so that Ctrl-C or an error ends Ray Data's work before Ray is shut down.
        for bundle in data.iter_internal_ref_bundles():
            for reference in bundle.block_refs:
                watch.heard()
                for row in _rows_of(reference):
                    yield _result_of(row)


def _rows_of(reference: Any) -> List[bytes]:
    import ray

    try:
        return ray.get(reference).column("done").to_pylist()
    except ray.exceptions.RayError:
        return []


def _result_of(row: bytes) -> Done:
    found = pickle.loads(row)
    if isinstance(found, Exception):
        raise found
    return found


def _stream(
    spec: Spec,
    given: Tuple[List[Any], Any, int],
    blocks: Sequence[ImageBlock],
    count: int,
    separate_readers: Optional[bool],
) -> Any:
    """Return a Ray data set with one row per block, whose column `done` has its result. `given` goes to `_Worker`."""
    import ray.data

    nodes.hush()
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.max_errored_blocks = -1  # go on if blocks are lost; the next pass repeats them
    rows = [{"index": block.index, "block": pickle.dumps(block)} for block in blocks]
    data: Any = ray.data.from_items(rows, override_num_blocks=len(rows))
    on_gpu = spec.backend == "gpu"
    if on_gpu if separate_readers is None else separate_readers:
        data = data.map_batches(_read, fn_args=given[:1], batch_size=1, batch_format="pyarrow", num_cpus=1)
    return data.map_batches(
        _Worker,
        fn_constructor_args=given,
        batch_size=1,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=count, max_tasks_in_flight_per_actor=_AHEAD),
        **({"num_gpus": 1} if on_gpu else {"num_cpus": spec.threads}),
    )


class _Worker:
    """A worker that Ray Data calls. It returns errors as results, because Ray would repeat a call that raises."""

    def __init__(self, shared: List[Any], register: Any, tries: int):
        import ray

        context = ray.get_runtime_context()
        self._register, self._tries = register, tries
        ray.get(register.add.remote(context.get_node_id(), context.current_actor))
        self._worker: Any = None
        try:
            self._worker = BlockWorker(ray.get(shared[0]), f"{platform.node()} {context.get_node_id()[:6]}")
        except Exception as error:
            self._failed = error

    def __call__(self, batch: Any) -> Any:
        done = [self._done(row) for row in batch.to_pylist()]
        return pyarrow.table({"done": pyarrow.array(done, pyarrow.large_binary())})

    def _done(self, row: Dict[str, Any]) -> bytes:
        if self._worker is None:
            return _pickled_error(self._failed)
        if row.get("error") is not None:
            return row["error"]
        try:
            import ray

            # Count the try before anything that may kill this worker.
            if ray.get(self._register.begin.remote(row["index"])) > self._tries:
                raise DeviceError(
                    f"the worker died {self._tries} times while it processed block {row['index']}, perhaps because "
                    "memory ran out: try a smaller --block-size"
                )
            block = pickle.loads(row["block"])
            return pickle.dumps(self._worker.classify(block, _pixels(row, self._worker.input_size)))
        except Exception as error:
            return _pickled_error(error)


def _read(batch: Any, shared: List[Any]) -> Any:
    import ray

    spec: Spec = ray.get(shared[0])
    rows: Dict[str, List[Any]] = {"block": [], "images": [], "labels": [], "error": []}
    for packed in batch.column("block").to_pylist():
        images = labels = error = None
        try:
            images, labels = read(pickle.loads(packed), spec.input_size, spec.invert, spec.held)
        except Exception as problem:
            error = _pickled_error(problem)
        row = (packed, images, None if labels is None else labels.astype("<i8"), error)
        for name, value in zip(rows, row):
            rows[name].append(value.tobytes() if hasattr(value, "tobytes") else value)
    found = {name: pyarrow.array(values, pyarrow.large_binary()) for name, values in rows.items()}
    return pyarrow.table({"index": batch.column("index"), **found})


def _pixels(row: Dict[str, Any], side: int) -> Optional[Pixels]:
    if row.get("images") is None:
        return None
    labels = None if row["labels"] is None else np.frombuffer(row["labels"], "<i8")
    return Pixels(np.frombuffer(row["images"], np.uint8).reshape(-1, 1, side, side), labels)


def _pickled_error(error: Exception) -> bytes:
    """Pickle an error so that another process can raise it. Errors of other packages become RuntimeErrors."""
    if isinstance(error, FashionInferError):
        return pickle.dumps(type(error)(str(error)))
    return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
