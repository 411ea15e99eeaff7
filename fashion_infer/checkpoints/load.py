"""Loads a checkpoint in any supported file format."""

import os
import re
from pathlib import Path

from ..errors import CheckpointError
from ..graph import operators, symbol
from ..system.inputs import open_regular
from ..system.paths import PathOrText
from . import confined, minidnn, mxnet_pair
from .checkpoint import Checkpoint

_FILE_OF_PAIR = re.compile(r"(?P<prefix>.+)(?:-\d{4}\.params|-symbol\.json)", re.DOTALL)
_HDF5 = b"\x89HDF\r\n\x1a\n"


def load(path: PathOrText, epoch: int = 1, trusted: bool = False) -> Checkpoint:
    """Load a checkpoint from an HDF5 file, weights-86.bin, or the files PREFIX-symbol.json and PREFIX-NNNN.params, in
    which NNNN is `epoch`. A `trusted` network may have operators that are not in `operators.TABLE`."""
    path = os.fspath(path)
    try:
        found = _load(path, epoch)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    if not trusted:
        operators.check(symbol.parse(found.symbol, path), path)
    return found._replace(trusted=trusted)


def _load(path: str, epoch: int) -> Checkpoint:
    if Path(path).is_file():
        with open_regular(path) as file:
            beginning = file.read(len(_HDF5))
        named = Path(path).suffix == minidnn.SUFFIX and beginning != _HDF5
        if named or minidnn.recognised(beginning):
            return minidnn.load(path)
        pair = _FILE_OF_PAIR.fullmatch(path)
        if beginning != _HDF5 and pair:
            raise CheckpointError(f"{path} is one file of MXNet's pair: give the prefix, {pair.group('prefix')}")
        if beginning != _HDF5:
            raise CheckpointError(f"{path} is not a complete HDF5 checkpoint: it does not begin as HDF5 files do")
        return confined.load(path)
    if Path(path + "-symbol.json").is_file() or mxnet_pair.params_files(path):
        return mxnet_pair.load(path, epoch)
    raise CheckpointError(f"no checkpoint at {path}: neither this file nor {path}-symbol.json exists")
