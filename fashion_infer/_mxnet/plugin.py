"""Our operator library in MXNet: loaded once a process, and its errors in one line."""

import re
from pathlib import Path
from typing import Set

from ..errors import DeviceError
from ..library import bindings
from .loading import load
from .mxnet_lock import once

BACKEND = "fashion_infer"  # what optimize_for calls our partitioner
FUSED_OPERATOR = "_fashion_infer_network"  # the operator that stands for a chain of nodes that the library has taken
# What MXNet has loaded: it refuses to register a partitioner twice.
_in_mxnet: Set[Path] = set()
_FAILED = re.compile(r"Check failed|Error in operator|not registered")
_PLACE = re.compile(r"MXNetError: |\[\d\d:\d\d:\d\d\] |(?:\S*/)?\w+\.(?:cc|h|cu|cuh|hpp|cpp):\d+: ")
_LONGEST = 300  # characters


@once
def load_operators() -> None:
    """Register the library's operators with MXNet, once a process.

    Raises
    ------
    DeviceError
        When the library is missing or built for another MXNet.
    """
    bindings.load()
    mx, path = load(), bindings.library_path()
    try:
        if path not in _in_mxnet:
            mx.library.load(str(path), verbose=False)
            _in_mxnet.add(path)
    except mx.MXNetError as error:
        raise DeviceError(
            f"MXNet refuses the operator library: {explain(error)}; rebuild it with `make setup`"
        ) from None


def explain(error: Exception) -> str:
    """The one line of an MXNetError that helps: the operator's own message when it left one, else MXNet's last line."""
    text = str(error)
    start = text.rfind("<<")
    if start >= 0 and ">>" in text[start:]:
        return " ".join(text[start + 2 : text.index(">>", start)].split())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return _shortened(next((line for line in reversed(lines) if _FAILED.search(line)), lines[-1]))


def _shortened(line: str) -> str:
    """A line of MXNet's without the place in its source, and cut where nobody reads on."""
    line = _PLACE.sub("", line).strip()
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
