"""Reads and writes `weights-86.bin`, the file of weights in the editions that used mini-dnn (fa2020 and later).

All numbers are little-endian: int32 number of layers; for each layer an int32 count, and that many float32, the weights
and then the biases. Layers without parameters count 0. The course's convolution did not add its biases, so `load` drops
those of convolutions, and `save` writes zeros.
"""

import struct
from pathlib import Path
from typing import Iterator, List, Mapping, Tuple

import numpy as np

from ..errors import CheckpointError
from ..graph import symbol
from ..graph.layers import Convolution, Flatten, Step, walk
from ..system.files import replacing
from . import editions
from .checkpoint import Checkpoint, check_finite

EDITION = "fa2020"
SUFFIX = ".bin"
_INT32, _FLOAT32 = np.dtype("<i4"), np.dtype("<f4")


def recognised(beginning: bytes) -> bool:
    """Return whether a file's first bytes are the number of layers and the first count of a `weights-86.bin`."""
    steps = list(_steps())
    return beginning[:8] == struct.pack("<ii", len(steps), _count(steps[0]))


def load(path) -> Checkpoint:
    steps = list(_steps())
    size = _INT32.itemsize * (1 + sum(1 + _count(step) for step in steps))
    try:
        with open(path, "rb") as file:
            content = file.read(size + 1)  # at most one byte too many, because another kind of file may be very large
    except FileNotFoundError:
        raise CheckpointError(f"no checkpoint at {path}") from None
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    try:
        weights = _parse(content, steps)
        if len(content) != size:
            raise ValueError("it has bytes after the last weight")
    except ValueError as error:
        raise CheckpointError(f"{path} is not a complete weights file of {EDITION}'s network: {error}") from None
    check_finite(weights, str(path))
    edition = editions.get(EDITION)
    learned = {name: weights[name] for step in steps for name in step.parameters}
    return Checkpoint(symbol.build(edition.layers, edition.shape), learned, {"edition": EDITION})


def save(path, checkpoint: Checkpoint) -> Path:
    """Write fa2020's weights without rounding, and return the path; CheckpointError for any other network."""
    steps = list(_steps("new" if "new0_weight" in checkpoint.weights else "convolution"))
    shapes = {name: shape for step in steps for name, shape in step.parameters.items()}
    if {name: array.shape for name, array in checkpoint.weights.items()} != shapes:
        raise CheckpointError(f"{path} can contain only the weights of {EDITION}'s network")
    parts = [_integer(len(steps))]
    for step in steps:
        parts.append(_integer(_count(step)))
        parts += [np.ascontiguousarray(checkpoint.weights[name], _FLOAT32).tobytes() for name in step.parameters]
        parts.append(bytes(_FLOAT32.itemsize * _ignored(step)))
    with replacing(path) as temporary:
        Path(temporary).write_bytes(b"".join(parts))
    return Path(path)


def _steps(convolution: str = "new") -> Iterator[Step]:
    """Return the layers that the file counts; `convolution` is the beginning of the convolutions' names."""
    edition = editions.get(EDITION)
    return (step for step in walk(edition.layers, edition.shape, convolution) if not isinstance(step.layer, Flatten))


def _ignored(step: Step) -> int:
    """Return the number of biases that a layer has in the file, but not in the checkpoint."""
    return step.layer.filters if isinstance(step.layer, Convolution) else 0


def _count(step: Step) -> int:
    return sum(int(np.prod(shape)) for shape in step.parameters.values()) + _ignored(step)


def _parse(content: bytes, steps: List[Step]) -> Mapping[str, np.ndarray]:
    at, found = 0, {}

    def take(dtype: np.dtype, count: int) -> np.ndarray:
        nonlocal at
        size = dtype.itemsize * count
        if size > len(content) - at:
            raise ValueError(f"it ends too early (at {len(content)} bytes)")
        at += size
        return np.frombuffer(content, dtype, count, at - size)

    def expect(what: str, wanted: int) -> None:
        (number,) = take(_INT32, 1)
        if number != wanted:
            raise ValueError(f"{what} {number}, not {wanted}")

    expect("its number of layers is", len(steps))
    for index, step in enumerate(steps):
        expect(f"the count of layer {index + 1} ({step.name}) is", _count(step))
        for name, shape in _arrays(step):
            found[name] = take(_FLOAT32, int(np.prod(shape))).reshape(shape).astype(np.float32)
    return found


def _arrays(step: Step) -> List[Tuple[str, Tuple[int, ...]]]:
    ignored = [(f"{step.name}_bias", (_ignored(step),))] if _ignored(step) else []
    return [*step.parameters.items(), *ignored]


def _integer(value: int) -> bytes:
    return struct.pack("<i", value)
