"""Reads and writes MXNet's checkpoints: pairs of files, PREFIX-symbol.json and PREFIX-NNNN.params."""

from pathlib import Path
from typing import Any, Dict, List, Tuple

from .. import _mxnet
from ..errors import CheckpointError, UsageError
from ..graph.structure import LARGEST_TEXT
from ..graph.symbol import auxiliary, parse, variables
from ..system.files import replacing_together
from ..system.inputs import open_regular
from ..system.text import excerpt
from . import params_file
from .checkpoint import Checkpoint, check_finite, notice_of_rounded, rounded


def load(prefix: str, epoch: int = 1) -> Checkpoint:
    """Read PREFIX-symbol.json and the weights that it names; CheckpointError if a file is missing or damaged."""
    symbol_path, params_path = _pair(prefix, epoch)
    symbol = _text(symbol_path)
    names = set(variables(parse(symbol, str(symbol_path))))
    if not params_path.is_file():
        there = [int(p.name[len(Path(prefix).name) + 1 : -len(".params")]) for p in params_files(prefix)]
        hint = f": give --epoch {there[0]}, whose file exists" if there else ""
        raise CheckpointError(f"{params_path} is missing{hint}")

    def wanted(name: str) -> bool:
        kind, _, bare = name.partition(":")
        if kind not in ("arg", "aux") or not bare:
            raise CheckpointError(f"{params_path} has an array '{excerpt(name)}', which is not a weight")
        return bare in names

    weights: Dict[str, Any] = {}
    changed: List[str] = []
    for name, array in params_file.read(params_path, wanted).items():
        bare = name.partition(":")[2]
        weights[bare] = rounded(bare, array, changed)
    check_finite(weights, str(params_path))
    return Checkpoint(symbol, weights, {"epoch": epoch}, notice=notice_of_rounded(changed))


def _text(path: Path) -> str:
    """Return the text of a symbol's file. Of a file above the size limit, one more byte is read; `parse` refuses it."""
    try:
        with open_regular(path) as file:
            return file.read(LARGEST_TEXT + 1).decode("utf-8")
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise CheckpointError(f"{path} is not an MXNet symbol: it is not UTF-8 text") from None


def save(prefix: str, checkpoint: Checkpoint, epoch: int = 1) -> List[Path]:
    """Write both files as `mxnet.model.save_checkpoint` does, and return their paths; an error leaves old files."""
    mx = _mxnet.load()
    symbol_path, params_path = _pair(prefix, epoch)
    with replacing_together([symbol_path, params_path]) as (symbol_temporary, params_temporary):
        Path(symbol_temporary).write_text(checkpoint.symbol, encoding="utf-8")
        graph = parse(checkpoint.symbol, "the network")
        moving = {graph["nodes"][number]["name"] for number in auxiliary(graph)}
        arrays = {
            f"{'aux' if name in moving else 'arg'}:{name}": mx.nd.array(values, dtype=values.dtype)
            for name, values in checkpoint.weights.items()
        }
        try:
            mx.nd.save(params_temporary, arrays)
        except mx.MXNetError:
            raise CheckpointError(f"cannot write {params_path}: is the disk full?") from None
    return [symbol_path, params_path]


def _pair(prefix: str, epoch: int) -> Tuple[Path, Path]:
    if not 0 <= epoch <= 9999:
        raise UsageError(f"epoch must be 0 to 9999, not {epoch}")
    return Path(f"{prefix}-symbol.json"), Path(f"{prefix}-{epoch:04d}.params")


def params_files(prefix: str) -> List[Path]:
    """Return the existing files PREFIX-NNNN.params, in the order of their epochs."""
    path = Path(prefix)
    return sorted(p for p in path.parent.glob(f"{path.name}-[0-9][0-9][0-9][0-9].params") if p.is_file())
