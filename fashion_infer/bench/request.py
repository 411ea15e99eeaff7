"""Requests for a benchmark and checks of their values; conversion of frameworks' errors to one-line errors."""

import importlib.util
import shlex
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import DeviceError, UsageError
from ..kernel_files.formats import KernelFile
from . import peers as others


class BenchRequest(NamedTuple):
    """A request for a benchmark. Each kind of benchmark uses some of the fields; none needs a dataset."""

    editions: Tuple[str, ...] = ("fa2017",)
    backend: str = "cpu"
    device: int = 0
    against: Optional[str] = None  # comma-separated peers, or "none"; peers that are not installed are left out
    batches: Tuple[int, ...] = ()  # each at least 1; empty: the benchmark's default
    repeat: Optional[int] = None  # timed runs of each contender
    warmup: int = 1  # runs of each contender before the timed ones
    kernels: str = "all"  # comma-separated kernels ("all" or "ladder" for all) and paths of kernel files
    files: Tuple[KernelFile, ...] = ()  # those that `kernels` names, in the same order
    formats: Optional[str] = None  # value of the option --format
    layers: Optional[str] = None  # "course", "others" or "all" (`layers.of_set`), measured instead of `editions`


def check_numbers(request: BenchRequest) -> None:
    numbers = [("batch", batch) for batch in request.batches]
    for option, value in (*numbers, ("repeat", request.repeat), ("warmup", request.warmup)):
        if value is not None and value < 1:
            raise UsageError(f"--{option} must be at least 1, not {value}")


def peer_names(against: Optional[str], known: Sequence[str]) -> List[str]:
    """Return the peers in comma-separated names: all for None, none for "none"; UsageError for an unknown name."""
    names = [] if against == "none" else list(known) if against is None else [n.strip() for n in against.split(",")]
    for name in names:
        if name not in known:
            raise UsageError(f"unknown peer '{name}'; known: {', '.join(known)}, none")
    return list(dict.fromkeys(names))


def available(
    peers: Sequence[str], here: Mapping[str, object], backend: str, asked: bool
) -> Tuple[List[str], Dict[str, str]]:
    """Return the peers that can run on this machine, and for each other peer the reason why it cannot.

    Peers that do not exist for the backend get a reason only if the user `asked` for them by name.
    """
    present, missing = [], {}
    for name in peers:
        package = others.find(name).package
        if name not in here:
            if asked:
                missing[name] = f"it is no peer on the {backend.upper()}"
        elif package and importlib.util.find_spec(package) is None:
            missing[name] = "not installed"
        else:
            present.append(name)
    return present, missing


def command(what: str, backend: str, options: Mapping[str, Any]) -> str:
    """Return the command line that runs a benchmark again. None and False are left out; each edition is an option."""
    words = ["fashion-infer", "bench", what]
    for name in options.get("edition", ()):
        words += ["--edition", name]
    words += ["--backend", backend]
    flags = []
    for option, value in options.items():
        if value is True:
            flags.append(f"--{option}")
        elif option != "edition" and value is not None and value is not False:
            words += [f"--{option}", str(value)]
    return shlex.join([*words, *flags])


def package_error(error: Exception, backend: str) -> Exception:
    """Convert an error about insufficient memory, or any error on a GPU, to a DeviceError; return others unchanged."""
    text = f"{type(error).__name__} {error}".lower()
    if isinstance(error, MemoryError) or any(sign in text for sign in ("outofmemory", "out of memory", "allocate")):
        return DeviceError("out of memory: use a smaller --batch")
    if backend == "gpu":
        return DeviceError(f"the GPU failed: {str(error).strip().splitlines()[0]}")
    return error
