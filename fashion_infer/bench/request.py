"""What a benchmark was asked for, checked; and what went wrong, said in one line."""

import importlib.util
import shlex
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ..errors import DeviceError, UsageError

# The package that a peer needs, where it is not called as the peer is; None where the machine looks for itself.
_PACKAGES = {"cudnn": None, "torch-compile": "torch"}


def at_least_one(**numbers: Optional[int]) -> None:
    """UsageError for an option whose number is below 1; None is an option left out."""
    for option, value in numbers.items():
        if value is not None and value < 1:
            raise UsageError(f"--{option} must be at least 1, not {value}")


def peer_names(against: Optional[str], known: Sequence[str]) -> List[str]:
    """The peers named with commas between them; all for None, none for "none"; UsageError for one not known."""
    names = [] if against == "none" else list(known) if against is None else [n.strip() for n in against.split(",")]
    for name in names:
        if name not in known:
            raise UsageError(f"unknown peer '{name}'; known: {', '.join(known)}, none")
    return list(dict.fromkeys(names))


def available(
    peers: Sequence[str], here: Mapping[str, object], backend: str, asked: bool
) -> Tuple[List[str], Dict[str, str]]:
    """Those of the peers that can run here, and why the others cannot.

    Parameters
    ----------
    peers
        Names, from `peer_names`.
    here
        The peers that the machine has, by name.
    asked
        Whether the user named the peers: only then one that the machine does not have is spoken of.
    """
    present, missing = [], {}
    for name in peers:
        package = package_of(name)
        if name not in here:
            if asked:
                missing[name] = f"it is no peer on the {backend.upper()}"
        elif package and importlib.util.find_spec(package) is None:
            missing[name] = "not installed"
        else:
            present.append(name)
    return present, missing


def package_of(peer: str) -> Optional[str]:
    """The package that a peer is imported from; None where the machine looks for itself."""
    return _PACKAGES.get(peer, peer)


def command(what: str, editions: Sequence[str], backend: str, **options) -> str:
    """The command line that runs a benchmark again; an option that is None is left out."""
    words = ["fashion-infer", "bench", what]
    for name in editions:
        words += ["--edition", name]
    words += ["--backend", backend]
    for option, value in options.items():
        words += [] if value is None else [f"--{option}", str(value)]
    return shlex.join(words)


def explained(error: Exception, backend: str) -> Exception:
    """The error of a framework as one of ours: memory that does not suffice, or a GPU that fails."""
    text = f"{type(error).__name__} {error}".lower()
    if isinstance(error, MemoryError) or any(sign in text for sign in ("outofmemory", "out of memory", "allocate")):
        return DeviceError("out of memory: use a smaller --batch")
    if backend == "gpu":
        return DeviceError(f"the GPU failed: {str(error).strip().splitlines()[0]}")
    return error
