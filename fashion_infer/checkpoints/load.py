"""Load a checkpoint from a path, whichever form it has there."""

from pathlib import Path

from ..errors import CheckpointError
from . import hdf5, mxnet_pair
from .checkpoint import Checkpoint


def load(path: str, epoch: int = 1) -> Checkpoint:
    """Load either form: an HDF5 file, or the PREFIX of MXNet's pair.

    Parameters
    ----------
    path
        FILE.h5, or PREFIX for PREFIX-symbol.json and PREFIX-NNNN.params.
    epoch
        NNNN of the pair; not used for HDF5.

    Raises
    ------
    CheckpointError
        When the files are missing or damaged.
    """
    if Path(path).is_file():
        return hdf5.load(path)
    if Path(path + "-symbol.json").is_file() or mxnet_pair.params_files(path):
        return mxnet_pair.load(path, epoch)
    raise CheckpointError(f"no checkpoint at {path}: neither a file, nor {path}-symbol.json with its .params")
