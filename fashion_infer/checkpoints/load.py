"""Load a checkpoint from a path, whichever form it has there."""

from pathlib import Path

from ..errors import CheckpointError
from . import hdf5, minidnn, mxnet_pair
from .checkpoint import Checkpoint


def load(path: str, epoch: int = 1) -> Checkpoint:
    """Load any form: an HDF5 file, mini-dnn's weights-86.bin, or the PREFIX of MXNet's pair.

    Parameters
    ----------
    path
        FILE.h5, weights-86.bin, or PREFIX for PREFIX-symbol.json and PREFIX-NNNN.params. A file is taken for what it
        begins with, whatever its name; where its beginning is of no form, by its suffix.
    epoch
        NNNN of the pair; not used for HDF5.

    Raises
    ------
    CheckpointError
        When the files are missing or damaged.
    """
    if Path(path).is_file():
        return minidnn.load(path) if _of_minidnn(path) else hdf5.load(path)
    if Path(path + "-symbol.json").is_file() or mxnet_pair.params_files(path):
        return mxnet_pair.load(path, epoch)
    raise CheckpointError(f"no checkpoint at {path}: neither a file, nor {path}-symbol.json with its .params")


_HDF5 = b"\x89HDF\r\n\x1a\n"


def _of_minidnn(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            beginning = file.read(len(_HDF5))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    named = Path(path).suffix == minidnn.SUFFIX and beginning != _HDF5
    return named or minidnn.recognised(beginning)
