"""Requests for a benchmark and checks of their values; conversion of frameworks' errors to one-line errors."""

import importlib.util
import shlex
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import DeviceError, UsageError
from ..kernel_files.formats import KernelFile
from . import peers as others


class BenchRequest(NamedTuple):
    """A request for a benchmark. Each kind of benchmark uses some of the fields; none needs a dataset.

    Attributes
    ----------
    editions
        Editions of the course whose convolutions or networks are measured.
    backend, device
        "cpu" or "gpu", and the GPU's index.
    against
        Comma-separated names of peers, or "none"; None for the benchmark's default peers. A peer that is not installed
        is left out, and `BenchResult.not_compared` says why.
    batches
        Batch sizes, each at least 1; for the grid also "largest". Empty for the benchmark's default.
    repeat
        Number of timed runs of each contender; None for the benchmark's default.
    kernels
        For `bench conv`: comma-separated names of library kernels ("all" or "ladder" for all of them) and paths of
        kernel files.
    files
        For `bench conv`: the kernel files that `kernels` names, in the same order.
    formats
        For `bench conv`: the formats that the user gave for the kernel files, as the option's value.
    layers
        For `bench conv`: name of a set in `layers.SETS`, measured instead of `editions`.
    full, seed
        For the grid: whether to measure all points, and the seed that determines the order and the sample.
    seconds
        For the grid: time after which no point is started; None for no limit.
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

    Parameters
    ----------
    peers
        Names of peers, from `peer_names`.
    here
        The machine's peers for this benchmark, by name.
    asked
        Whether the user named the peers. Only then is a reason given for peers that do not exist for the backend.
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
    """Return the command line that runs a benchmark again.

    The option "edition" is a sequence; each of its values gets an `--edition`. Other options that are None or False are
    left out, and True gives a flag without a value.
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
    """Join values with commas, for an option; return None if there are no values."""
    return ",".join(map(str, values)) or None


def package_error(error: Exception, backend: str) -> Exception:
    """Convert an error about insufficient memory, or any error on a GPU, to a DeviceError; return others unchanged."""
    text = f"{type(error).__name__} {error}".lower()
    if isinstance(error, MemoryError) or any(sign in text for sign in ("outofmemory", "out of memory", "allocate")):
        return DeviceError("out of memory: use a smaller --batch")
    if backend == "gpu":
        return DeviceError(f"the GPU failed: {str(error).strip().splitlines()[0]}")
    return error
