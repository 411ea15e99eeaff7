"""Checkpoints of MXNet: PREFIX-symbol.json with PREFIX-NNNN.params."""

from pathlib import Path
from typing import List, Tuple

import numpy as np

from .. import _mxnet
from ..errors import CheckpointError, UsageError
from ..files import replacing
from ..graph.symbol import parse
from . import params_file
from .checkpoint import Checkpoint, check_finite


def load(prefix: str, epoch: int = 1) -> Checkpoint:
    """Read PREFIX-symbol.json and PREFIX-NNNN.params; CheckpointError when they are missing or damaged."""
    symbol_path, params_path = _pair(prefix, epoch)
    try:
        symbol = symbol_path.read_text(encoding="utf-8")
    except OSError as error:
        raise CheckpointError(f"cannot read {symbol_path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CheckpointError(f"{symbol_path} is not an MXNet symbol: it is not text") from None
    parse(symbol, str(symbol_path))
    if not params_path.is_file():
        there = [int(p.name[len(Path(prefix).name) + 1 : -len(".params")]) for p in params_files(prefix)]
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


def save(prefix: str, checkpoint: Checkpoint, epoch: int = 1) -> List[Path]:
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


def params_files(prefix: str) -> List[Path]:
    """The files PREFIX-NNNN.params that there are, in the order of their epochs."""
    path = Path(prefix)
    return sorted(p for p in path.parent.glob(f"{path.name}-[0-9][0-9][0-9][0-9].params") if p.is_file())
