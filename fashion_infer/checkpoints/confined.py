"""Reads untrusted HDF5 checkpoints in a child process with limits on time, memory and open files.

On some damaged files, the HDF5 library loops forever, ignores Ctrl-C or crashes before `hdf5` can check an object. The
shipped models are part of the program, and are read without a child.
"""

import io
import json
import math
import os
import sys
from typing import Any, Dict, Tuple

import numpy as np

from ..errors import CheckpointError
from ..graph import symbol
from ..graph.layers import Dense, walk
from ..system import confinement
from . import hdf5
from .checkpoint import LARGEST_WEIGHTS, Checkpoint

_CPU_SECONDS, _SECONDS = 10, 60.0
_CHILD = confinement.code(f"{__package__}.confined")


def load(path: str) -> Checkpoint:
    words = [os.fspath(path), str(_CPU_SECONDS)]
    done = confinement.run(_CHILD, words, _SECONDS, {"HDF5_PLUGIN_PRELOAD": "::"})
    if done.why == "time":
        raise CheckpointError(f"{path} could not be read in {_SECONDS:.0f} s: it is damaged, or the disk is slow")
    if done.why == "processor time":
        raise CheckpointError(f"{path} is not a complete HDF5 checkpoint: it could not be read in {_CPU_SECONDS} s")
    if done.why:
        raise CheckpointError(f"cannot start a process to read {path}: {done.why}")
    try:
        head, weights = _unpack(done.out)
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"{path} is not a complete HDF5 checkpoint: the HDF5 library crashed") from None
    if "error" in head:
        raise CheckpointError(head["error"])
    return Checkpoint(head["symbol"], weights, head["attributes"], notice=head["notice"])


def child(path: str, cpu_seconds: str) -> None:
    """Main function of the child: read a checkpoint, and write a line of JSON and the weights' bytes to stdout."""
    _rehearse()
    _confine(int(cpu_seconds))
    try:
        found = hdf5.load(path)
    except CheckpointError as error:
        _write({"error": str(error)})
        return
    shapes = [[name, list(array.shape)] for name, array in found.weights.items()]
    head = {"symbol": found.symbol, "attributes": found.attributes, "notice": found.notice, "weights": shapes}
    _write(head)
    for array in found.weights.values():
        sys.stdout.buffer.write(np.ascontiguousarray(array).data)


def _rehearse() -> None:
    """Read a small checkpoint from memory, so that Python imports all modules before the open files are limited."""
    shape, layers = (1,), [Dense(1)]
    weights = {name: np.ones(shape) for step in walk(layers, shape) for name, shape in step.parameters.items()}
    hdf5.load(io.BytesIO(hdf5.image(Checkpoint(symbol.build(layers, shape), weights, {"edition": "fa2017"}), {})))
    json.dumps(_unpack(b'{"error": 1.5}')[0], default=repr)


def _confine(cpu_seconds: int) -> None:
    confinement.limit(4 * LARGEST_WEIGHTS)
    confinement.limit_time(cpu_seconds)


def _write(head: Dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(head, default=repr).encode() + b"\n")


def _unpack(content: bytes) -> Tuple[Dict[str, Any], Dict[str, np.ndarray]]:
    line, _, rest = content.partition(b"\n")
    head = json.loads(line)
    if "error" in head:
        return head, {}
    weights, at = {}, 0
    for name, shape in head["weights"]:
        count = math.prod(shape)
        weights[name] = np.frombuffer(rest, np.float32, count, at).reshape(shape)
        at += 4 * count
    if at != len(rest):
        raise ValueError("it has bytes after the last weight")
    return head, weights
