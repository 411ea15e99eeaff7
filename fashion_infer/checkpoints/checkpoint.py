"""Weights and architecture on disk: this package's HDF5, and MXNet's PREFIX-symbol.json with PREFIX-NNNN.params.

The HDF5 file holds the symbol's JSON as the dataset `symbol`, each weight as `weights/NAME` (float32, or int8 with
`scales/NAME`, one float32 a row: weight = int8 * scale in float32, the same bits everywhere), and the facts about the
checkpoint as attributes of the file.
"""

from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from .. import _mxnet
from ..errors import CheckpointError, UsageError
from ..files import replacing
from ..graph import network
from . import params_file

FORMAT = "fashion-infer checkpoint 1"


class Checkpoint(NamedTuple):
    """A network and its weights.

    `symbol` is MXNet's JSON; `weights` maps argument names to float32 arrays; `attributes` holds what is known of
    where they came from (edition, seed, epoch, command, correctness, ...; may be empty).
    """

    symbol: str
    weights: Dict[str, np.ndarray]
    attributes: Dict[str, Any]


def load(path: str, epoch: int = 1) -> Checkpoint:
    """Read either form: an HDF5 file, or the PREFIX of MXNet's pair.

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
        return load_hdf5(path)
    if Path(path + "-symbol.json").is_file() or _params_files(path):
        return load_mxnet(path, epoch)
    raise CheckpointError(f"no checkpoint at {path}: neither a file, nor {path}-symbol.json with its .params")


# ---- HDF5 ------------------------------------------------------------------------------------


def load_hdf5(path) -> Checkpoint:
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
    network.parse(symbol, f"the symbol in {path}")
    check_finite(weights, str(path))
    return Checkpoint(symbol, weights, attributes)


def _plain(value):
    """HDF5 attributes come as NumPy scalars and arrays; JSON and people want Python's."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def save_hdf5(path, checkpoint: Checkpoint, quantized: Optional[Mapping[str, Tuple[np.ndarray, np.ndarray]]] = None):
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
    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
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


# ---- MXNet's pair ----------------------------------------------------------------------------


def load_mxnet(prefix: str, epoch: int = 1) -> Checkpoint:
    """Read PREFIX-symbol.json and PREFIX-NNNN.params; CheckpointError when they are missing or damaged."""
    symbol_path, params_path = _pair(prefix, epoch)
    try:
        symbol = symbol_path.read_text(encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"cannot read {symbol_path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CheckpointError(f"{symbol_path} is not an MXNet symbol: it is not text") from None
    network.parse(symbol, str(symbol_path))
    if not params_path.is_file():
        there = [int(p.name[len(Path(prefix).name) + 1 : -len(".params")]) for p in _params_files(prefix)]
        hint = f"; --epoch {there[0]} is there" if there else ""
        raise CheckpointError(f"{params_path} is missing{hint}")
    weights = {}
    for name, array in params_file.read(params_path).items():
        kind, _, bare = name.partition(":")
        if kind not in ("arg", "aux") or not bare:
            raise CheckpointError(f"{params_path} holds '{name}', which is no weight of a network")
        weights[bare] = array.astype(np.float32)
    check_finite(weights, str(params_path))
    return Checkpoint(symbol, weights, {"epoch": epoch})


def save_mxnet(prefix: str, checkpoint: Checkpoint, epoch: int = 1) -> List[Path]:
    """Write PREFIX-symbol.json and PREFIX-NNNN.params as `mxnet.model.save_checkpoint` does; the paths written.

    Raises
    ------
    CheckpointError
        When a file cannot be written; then neither is left.
    """
    mx = _mxnet.load()
    symbol_path, params_path = _pair(prefix, epoch)
    with replacing(params_path) as temporary:
        try:
            mx.nd.save(temporary, {f"arg:{k}": mx.nd.array(v, dtype=v.dtype) for k, v in checkpoint.weights.items()})
        except mx.MXNetError:
            raise CheckpointError(f"cannot write {params_path}: is the disk full?") from None
        with replacing(symbol_path) as symbol_temporary:
            Path(symbol_temporary).write_text(checkpoint.symbol, encoding="utf-8")
    return [symbol_path, params_path]


def _pair(prefix: str, epoch: int) -> Tuple[Path, Path]:
    if not 0 <= epoch <= 9999:
        raise UsageError(f"epoch must be 0 to 9999, not {epoch}")
    return Path(f"{prefix}-symbol.json"), Path(f"{prefix}-{epoch:04d}.params")


def _params_files(prefix: str) -> List[Path]:
    prefix = Path(prefix)
    return sorted(p for p in prefix.parent.glob(f"{prefix.name}-[0-9][0-9][0-9][0-9].params") if p.is_file())


def check_finite(weights: Mapping[str, np.ndarray], source: str) -> None:
    """Raise CheckpointError when a weight is NaN or infinite."""
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise CheckpointError(f"{source}: weight {name} holds NaN or infinite values")
