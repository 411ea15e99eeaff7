"""Checkpoints of this package: one HDF5 file.

It holds the symbol's JSON as the dataset `symbol`, each weight as `weights/NAME` (float32, or int8 with `scales/NAME`,
one float32 a row: weight = int8 * scale in float32, the same bits everywhere), and the facts about the checkpoint as
attributes of the file.
"""

from typing import Mapping, Optional, Tuple

import numpy as np

from ..errors import CheckpointError
from ..files import replacing
from ..graph.symbol import parse
from ..interrupts import interrupt_deferred
from .checkpoint import Checkpoint, check_finite

FORMAT = "fashion-infer checkpoint 1"


@interrupt_deferred()
def load(path) -> Checkpoint:
    """Read an HDF5 checkpoint; CheckpointError when it is missing, damaged or not one."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            if file.attrs.get("format") != FORMAT:
                raise CheckpointError(f"{path} is HDF5, but not a checkpoint of this program")
            symbol = file["symbol"][()].decode()
            weights = {}
            for name, stored in file["weights"].items():
                weights[name] = stored[()].astype(np.float32)
                if stored.dtype == np.int8:
                    scale = file["scales"][name][()].astype(np.float32)
                    weights[name] *= scale.reshape(-1, *[1] * (stored.ndim - 1))
            attributes = {key: _plain(value) for key, value in file.attrs.items() if key != "format"}
    except CheckpointError:
        raise
    except FileNotFoundError:
        raise CheckpointError(f"no checkpoint at {path}") from None
    except (OSError, KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        detail = " ".join(str(error).split())
        raise CheckpointError(f"{path} is not a whole HDF5 checkpoint: {detail}") from None
    parse(symbol, f"the symbol in {path}")
    check_finite(weights, str(path))
    return Checkpoint(symbol, weights, attributes)


def _plain(value):
    """HDF5 attributes come as NumPy scalars and arrays; JSON and people want Python's."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def save(path, checkpoint: Checkpoint, quantized: Optional[Mapping[str, Tuple[np.ndarray, np.ndarray]]] = None):
    """Write an HDF5 checkpoint, whole or not at all.

    Parameters
    ----------
    quantized
        Weights to store as int8: name -> (values int8 (rows, ...), scale float32 (rows,)), replacing those in
        `checkpoint.weights` of the same name.

    Raises
    ------
    CheckpointError
        When the file cannot be written.
    """
    import h5py

    quantized = quantized or {}
    packed = {"compression": "gzip", "compression_opts": 9, "shuffle": True}
    with replacing(path) as temporary, interrupt_deferred(), h5py.File(temporary, "w") as file:
        file.attrs["format"] = FORMAT
        for key, value in checkpoint.attributes.items():
            file.attrs[key] = value
        file["symbol"] = np.bytes_(checkpoint.symbol.encode())
        for name in sorted(set(checkpoint.weights) | set(quantized)):
            if name in quantized:
                values, scale = quantized[name]
                file.create_dataset(f"weights/{name}", data=np.asarray(values, np.int8), **packed)
                file.create_dataset(f"scales/{name}", data=np.asarray(scale, np.float32), **packed)
            else:
                file.create_dataset(f"weights/{name}", data=np.asarray(checkpoint.weights[name], np.float32), **packed)
