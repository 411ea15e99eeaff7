"""Reads and writes checkpoints in this package's format, an HDF5 file.

It has the network as MXNet's JSON (`symbol`), each weight as float32 or int8 (`weights/NAME`), for int8 one float32 per
row (`scales/NAME`) by which the row is multiplied in float32, and facts as attributes. Links, external storage, virtual
datasets and compression other than gzip are refused: they refer to other files, or make HDF5 load a library.
"""

import io
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from ..errors import CheckpointError
from ..graph.structure import LARGEST_TEXT
from ..graph.symbol import parse, variables
from ..system.files import replacing
from ..system.interrupts import interrupt_deferred
from ..system.text import excerpt
from . import editions
from .checkpoint import Checkpoint, check_finite, check_size, notice_of_rounded, rounded

FORMAT = "fashion-infer checkpoint 1"
_TYPES = ("f2", "f4", "f8", "i1", "u1", "i2", "i4", "i8")  # NumPy's codes of allowed types, in either byte order
_MOST_DIMENSIONS = 8
_MIN_COMPRESSED = 2 << 10  # smallest size in bytes of an array that is compressed
_LAYOUT = ("v110", "v110")  # HDF5 1.10, in which a dataset of one chunk needs no index and takes 2 to 6 KB less
_MOST_FACTS = 100  # largest number of attributes
_LARGEST_FACT = 64 << 10  # size limit of an attribute in bytes


@interrupt_deferred()
def load(path) -> Checkpoint:
    import h5py

    names: List[str] = []
    try:
        # The file is not locked, because some network file systems have no locks, and because a file that another
        # process has open must be readable.
        with h5py.File(path, "r", locking=False) as file:
            if file.attrs.get("format") != FORMAT:
                raise CheckpointError(f"{path} is an HDF5 file, but not a checkpoint of this program")
            symbol = _text(_dataset(file, "symbol"))
            graph = parse(symbol, f"the symbol in {path}")
            weights = _weights(file, variables(graph), names)
            facts = _facts(file.attrs)
    except CheckpointError:
        raise
    except FileNotFoundError:
        raise CheckpointError(f"no checkpoint at {path}") from None
    except MemoryError:
        raise CheckpointError(f"{path} is not a complete HDF5 checkpoint: its arrays need too much memory") from None
    except (OSError, KeyError, ValueError, TypeError, AttributeError, RuntimeError, OverflowError) as error:
        detail = " ".join(str(error).split())
        raise CheckpointError(f"{path} is not a complete HDF5 checkpoint: {detail}") from None
    check_finite(weights, str(path))
    check_edition(facts, str(path))
    return Checkpoint(symbol, weights, facts, notice=notice_of_rounded(names))


def check_edition(facts: Mapping[str, Any], source: str) -> None:
    edition = facts.get("edition", next(iter(editions.EDITIONS)))
    if not isinstance(edition, str):
        raise CheckpointError(f"{source}: its edition is {excerpt(edition)}, which is not text")
    if edition not in editions.EDITIONS and edition not in editions.ALIASES:
        raise CheckpointError(f"{source}: its edition '{excerpt(edition)}' is unknown")


def _weights(file, wanted: List[str], names: List[str]) -> Dict[str, np.ndarray]:
    """Return the `wanted` weights that the file has, as float32; append to `names` those that were rounded."""
    stored, scales = _group(file, "weights"), _group(file, "scales") if "scales" in set(file) else {}
    there, scaled = set(stored), set(scales)
    found = {name: _dataset(stored, _key(name)) for name in wanted if _key(name) in there}
    check_size({name: dataset.shape for name, dataset in found.items()})
    weights = {}
    for name, dataset in found.items():
        _expect(dataset.ndim, f"weight {excerpt(name)} is a single number, not an array")
        if dataset.dtype == np.int8:
            _expect(_key(name) in scaled, f"the scale of weight {excerpt(name)} is missing")
            scale = _dataset(scales, _key(name))
            _expect(scale.shape == dataset.shape[:1], f"the scale of weight {excerpt(name)} has shape {scale.shape}")
            by_row = scale[()].astype(np.float32).reshape(-1, *[1] * (dataset.ndim - 1))
            weights[name] = dataset[()] * by_row  # the product of int8 and float32 is float32
        else:
            weights[name] = rounded(name, dataset[()], names)
    return weights


def _member(group, name: str, kind):
    import h5py

    link = group.get(name, getlink=True)
    if link is None:
        raise KeyError(f"it has no '{excerpt(name)}'")
    _expect(isinstance(link, h5py.HardLink), f"'{excerpt(name)}' is a link to another place, which is not supported")
    member = group[name]
    _expect(isinstance(member, kind), f"'{excerpt(name)}' is not a {kind.__name__.lower()}")
    return member


def _group(file, name: str):
    import h5py

    return _member(file, name, h5py.Group)


def _dataset(group, name: str):
    import h5py

    found = _member(group, name, h5py.Dataset)
    what = f"'{excerpt(name)}'"
    stored = found.id.get_create_plist()
    layout = stored.get_layout()
    _expect(layout in (h5py.h5d.COMPACT, h5py.h5d.CONTIGUOUS, h5py.h5d.CHUNKED), f"{what} refers to other datasets")
    _expect(layout != h5py.h5d.CONTIGUOUS or not stored.get_external_count(), f"{what} has its values in another file")
    filters = {stored.get_filter(index)[0] for index in range(stored.get_nfilters())}
    known = {h5py.h5z.FILTER_DEFLATE, h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_FLETCHER32}
    _expect(filters <= known, f"{what} is compressed by a filter other than gzip")
    _expect(
        found.shape is not None and found.ndim <= _MOST_DIMENSIONS,
        f"{what} is not an array of at most {_MOST_DIMENSIONS} dimensions",
    )
    if found.chunks:
        check_size({name: found.chunks})
    _expect(
        found.dtype.kind == "S" or found.dtype.str[1:] in _TYPES,
        f"{what} has the unsupported type {excerpt(found.dtype)}",
    )
    return found


def _text(dataset) -> str:
    fits = dataset.shape == () and dataset.dtype.kind == "S" and dataset.dtype.itemsize <= LARGEST_TEXT
    _expect(fits, "its symbol is not text, or is too long")
    return dataset[()].decode()


def _facts(attributes) -> Dict[str, Any]:
    _expect(len(attributes) <= _MOST_FACTS, f"it has {len(attributes)} attributes, more than {_MOST_FACTS}")
    facts = {}
    for name in attributes:
        attribute = attributes.get_id(name)
        _expect(attribute.get_storage_size() <= _LARGEST_FACT, f"attribute '{excerpt(name)}' is too long")
        _expect(
            attribute.dtype.kind in "iufbSO",
            f"attribute '{excerpt(name)}' has the unsupported type {excerpt(attribute.dtype)}",
        )
        if name != "format":
            value = attributes[name]
            facts[name] = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    return facts


def _key(name: str) -> str:
    """Encode a weight's name as a member's name: in HDF5, "/" separates the names of a path, and "." is the group."""
    return name.replace("%", "%25").replace("/", "%2F") if name not in ("", ".") else f"%{name}"


def _expect(condition: Any, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def save(path, checkpoint: Checkpoint, quantized: Optional[Mapping[str, Tuple[np.ndarray, np.ndarray]]] = None):
    """Write an HDF5 checkpoint, built in memory first; `quantized` has (int8 values, float32 scale per row) by name."""
    with replacing(path) as temporary:
        Path(temporary).write_bytes(image(checkpoint, quantized or {}))


@interrupt_deferred()
def image(checkpoint: Checkpoint, quantized: Mapping[str, Tuple[np.ndarray, np.ndarray]]) -> bytes:
    import h5py

    content = io.BytesIO()
    with h5py.File(content, "w", libver=_LAYOUT) as file:
        file.attrs["format"] = FORMAT
        for key, value in checkpoint.attributes.items():
            file.attrs[key] = value
        file["symbol"] = np.bytes_(checkpoint.symbol.encode())
        for name in sorted(set(checkpoint.weights) | set(quantized)):
            key = _key(name)
            if name in quantized:
                values, scale = quantized[name]
                _put(file, f"weights/{key}", np.asarray(values, np.int8))
                _put(file, f"scales/{key}", np.asarray(scale, np.float32))
            else:
                _put(file, f"weights/{key}", np.asarray(checkpoint.weights[name], np.float32))
    return content.getvalue()


def _put(file, key: str, values: np.ndarray) -> None:
    if values.nbytes < _MIN_COMPRESSED:
        file.create_dataset(key, data=values)
    else:
        packing = {"chunks": values.shape, "compression": "gzip", "compression_opts": 9, "shuffle": True}
        file.create_dataset(key, data=values, **packing)
