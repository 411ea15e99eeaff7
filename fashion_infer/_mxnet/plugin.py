"""Loads our operator library into MXNet, once per process, and shortens MXNet's errors to one line."""

import re
from pathlib import Path
from typing import Set

from ..errors import DeviceError
from ..library import bindings
from .loading import load
from .mxnet_lock import once

BACKEND = "fashion_infer"  # name of our partitioner for optimize_for
FUSED_OPERATOR = "_fashion_infer_network"  # the operator that replaces a chain of fused nodes
# Paths of the operator libraries that MXNet has loaded. MXNet cannot load one again, because it refuses to register a
# partitioner twice.
_in_mxnet: Set[Path] = set()
_FAILED = re.compile(r"Check failed|Error in operator|not registered")
_PLACE = re.compile(r"MXNetError: |\[\d\d:\d\d:\d\d\] |(?:\S*/)?\w+\.(?:cc|h|cu|cuh|hpp|cpp):\d+: ")
_LONGEST = 300  # largest number of characters of a message


@once
def load_operators() -> None:
    """Register the library's operators with MXNet, once per process; DeviceError if it was built for another MXNet."""
    bindings.load()
    mx, path = load(), bindings.library_path()
    try:
        if path not in _in_mxnet:
            mx.library.load(str(path), verbose=False)
            _in_mxnet.add(path)
    except mx.MXNetError as error:
        raise DeviceError(f"MXNet refuses the operator library ({explain(error)}): run `make setup`") from None


def explain(error: Exception) -> str:
    """Return the useful line of an MXNetError: the operator's own message if there is one, else MXNet's last line."""
    text = str(error)
    start = text.rfind("<<")
    if start >= 0 and ">>" in text[start:]:
        return " ".join(text[start + 2 : text.index(">>", start)].split())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return _shortened(next((line for line in reversed(lines) if _FAILED.search(line)), lines[-1]))


def _shortened(line: str) -> str:
    line = _PLACE.sub("", line).strip()
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
