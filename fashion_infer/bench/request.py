"""Requests for a benchmark, and their checks; errors of frameworks in one line."""

import importlib.util
import shlex
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import DeviceError, UsageError
from ..kernel_files.formats import KernelFile
from . import peers as others


class BenchRequest(NamedTuple):
    """A request. Every benchmark reads the fields that it uses; none needs a dataset.

    Attributes
    ----------
    editions
        Editions of the course whose convolutions or networks are measured.
    backend, device
        "cpu" or "gpu", and the GPU's index.
    against
        Comma-separated names of peers, or "none"; None for all that run on the backend. A peer that is not installed
        is left out, and `BenchResult.not_compared` says why.
    batches
        Images per batch, each at least 1; for the grid also "largest". Empty for the benchmark's default.
    repeat
        Timed runs of each contender; None for the benchmark's default.
    kernels
        For `bench conv`: comma-separated names, "all" or "ladder" for all of the library's, and paths of kernel files.
    files
        For `bench conv`: the kernel files that `kernels` names, in its order.
    formats
        For `bench conv`: formats that the user forced on them, as `options` shows them.
    layers
        For `bench conv`: a set of `layers.SETS`, in place of `editions`.
    full, seed
        For the grid: all points, or a sample determined by the seed.
    seconds
        For the grid: no point is started after this time. None for no limit.
    images
        For `bench net --device all`: total number of images.
    """

    editions: Tuple[str, ...] = ("fa2017",)
    backend: str = "cpu"
    device: int = 0
    against: Optional[str] = None
    batches: Tuple[Any, ...] = ()
    repeat: Optional[int] = None
    kernels: str = "all"
    files: Tuple[KernelFile, ...] = ()
    formats: Optional[str] = None
    layers: Optional[str] = None
    full: bool = False
    seed: int = 1
    seconds: Optional[float] = None
    images: Optional[int] = None


def check_numbers(request: BenchRequest) -> None:
    """Raise UsageError for a number below 1."""
    numbers = [("batch", batch) for batch in request.batches if not isinstance(batch, str)]
    for option, value in (*numbers, ("repeat", request.repeat), ("images", request.images)):
        if value is not None and value < 1:
            raise UsageError(f"--{option} must be at least 1, not {value}")


def peer_names(against: Optional[str], known: Sequence[str]) -> List[str]:
    """Parse comma-separated peers; all for None, none for "none"; UsageError for an unknown one."""
    names = [] if against == "none" else list(known) if against is None else [n.strip() for n in against.split(",")]
    for name in names:
        if name not in known:
            raise UsageError(f"unknown peer '{name}'; known: {', '.join(known)}, none")
    return list(dict.fromkeys(names))


def available(
    peers: Sequence[str], here: Mapping[str, object], backend: str, asked: bool
) -> Tuple[List[str], Dict[str, str]]:
    """Find the peers that can run here, and why the others cannot.

    Parameters
    ----------
    peers
        Names, from `peer_names`.
    here
        The machine's peers, by name.
    asked
        Whether the user named the peers; only then is a peer that the machine lacks mentioned.
    """
    present, missing = [], {}
    for name in peers:
        package = others.named(name).package
        if name not in here:
            if asked:
                missing[name] = f"it is no peer on the {backend.upper()}"
        elif package and importlib.util.find_spec(package) is None:
            missing[name] = "not installed"
        else:
            present.append(name)
    return present, missing


def command(what: str, backend: str, options: Mapping[str, Any]) -> str:
    """The command line that runs a benchmark again.

    An option that is None is left out; True gives a flag, and a tuple repeats the option.
    """
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


def joined(values: Sequence[Any]) -> Optional[str]:
    """Join values with commas, for an option; None if there are none."""
    return ",".join(map(str, values)) or None


def explained(error: Exception, backend: str) -> Exception:
    """Convert an error of a framework to one of ours: insufficient memory, or a failing GPU."""
    text = f"{type(error).__name__} {error}".lower()
    if isinstance(error, MemoryError) or any(sign in text for sign in ("outofmemory", "out of memory", "allocate")):
        return DeviceError("out of memory: use a smaller --batch")
    if backend == "gpu":
        return DeviceError(f"the GPU failed: {str(error).strip().splitlines()[0]}")
    return error
