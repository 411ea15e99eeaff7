"""Reads the pixels of a block from any kind of source, for a worker or in a separate task that reads for a worker."""

import functools
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional, Tuple

import numpy as np
from pyarrow import parquet

from ..data import own, pictures, synthetic
from ..data.resize import resize
from ..errors import DataError
from . import places, sources
from .job import Held, ImageBlock, Part

_ROWS = 1000  # number of Parquet rows that are read at a time, including rows that are skipped
_RESIZED = 2000  # number of images that are resized at a time, to limit the memory for `resize`'s doubles


class Pixels(NamedTuple):
    images: np.ndarray  # (n,1,S,S) uint8
    labels: Optional[np.ndarray]  # (n,); None unless all labels are known


def read(block: ImageBlock, input_size: int, invert: Optional[bool] = None, held: Held = None) -> Pixels:
    """Read a block's images (`held` if its source is "held"), and resize them; DataError if a file has changed."""
    images = np.empty((block.count, 1, input_size, input_size), np.uint8)
    labels: List[np.ndarray] = []
    at = 0
    for part in block.parts:
        before = at
        for piece, classes in _pieces(part, invert, held):
            for start in range(0, len(piece), _RESIZED):
                some = piece[start : start + _RESIZED]
                images[at : at + len(some)] = resize(some, input_size)
                at += len(some)
            labels += [] if classes is None else [classes]
        if at - before != part.count:
            raise DataError(f"{part.source.name} has changed since this job began: name a new folder with --out")
    known = sum(map(len, labels)) == len(images)
    return Pixels(images, np.concatenate(labels) if known else None)


def _pieces(part: Part, invert: Optional[bool], held: Held) -> Iterator[Tuple[np.ndarray, Optional[np.ndarray]]]:
    source, range_ = part.source, slice(part.start, part.start + part.count)
    if source.kind == "synthetic":
        yield synthetic.draw(part.start, part.count, source.modified)
    elif source.kind == "held":
        if held is None:
            raise DataError("this worker did not get the images")
        yield held[0][range_], held[1][range_]
    elif source.kind == "picture":
        yield _picture(source, invert)[None], None
    elif source.kind == "packed":
        yield _packed(source.place, source.size, source.modified)[range_], None
    elif source.kind == "parquet":
        for piece in _of_parquet(part, invert):
            yield piece, None
    else:
        yield _of_array(part), None


def _picture(source: sources.Source, invert: Optional[bool]) -> np.ndarray:
    if not places.is_uri(source.place):
        return pictures.read(source.place, invert)
    with sources.stream_of(source.place, source.name) as stream:
        return pictures.of_bytes(stream.read(), source.name, invert)


@functools.lru_cache(maxsize=1)
def _packed(place: str, size: int, modified: int) -> np.ndarray:
    """Return all images of a compressed file. The last result is cached, with size and date in the cache's key."""
    return own.as_images(own.array(Path(place)), Path(place))


def _of_array(part: Part) -> np.ndarray:
    source = part.source
    with sources.stream_of(source.place, source.name) as stream:
        entry = places.FileEntry(source.name, source.place, source.size, source.modified)
        array = sources.array_of(source.kind, stream, entry)
        if array is None or array.count != source.count:
            raise DataError(f"{source.name} has changed since this job began: name a new folder with --out")
        each = array.side**2 * array.dtype.itemsize
        stream.seek(array.begin + part.start * each)
        content = stream.read(part.count * each)
    if len(content) != part.count * each:
        raise DataError(f"{source.name} has changed since this job began: name a new folder with --out")
    pixels = np.frombuffer(content, array.dtype).reshape(part.count, array.side, array.side)
    return own.as_images(pixels, Path(source.name))


def _of_parquet(part: Part, invert: Optional[bool]) -> Iterator[np.ndarray]:
    source, left, skipped = part.source, part.count, part.start
    with sources.stream_of(source.place, source.name) as stream:
        file = parquet.ParquetFile(stream)
        column = sources.image_column(file.schema_arrow, source.name)
        groups: List[int] = []
        for index in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(index).num_rows
            if not groups and skipped >= rows:
                skipped -= rows
            else:
                groups.append(index)
        for batch in file.iter_batches(_ROWS, row_groups=groups, columns=[column]):
            rows = batch.column(0).slice(skipped, left)
            skipped = max(0, skipped - len(batch))
            left -= len(rows)
            if len(rows):
                yield sources.column_images(rows, source.name, invert)
            if not left:
                return
