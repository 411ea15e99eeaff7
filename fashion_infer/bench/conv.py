"""`bench conv`: every kernel on every convolution of the chosen editions, checked, then timed beside its peers."""

from typing import Callable, List, NamedTuple, Optional, Tuple, Union

from ..errors import DeviceError
from ..judging import reference
from ..kernel_files import formats, paths
from ..kernel_files.loading import LoadedKernel, load, names_of_loaded
from ..library import build
from ..library import kernels as library
from . import checking, layers, user_kernels
from . import request as requests
from .machines import open_machine
from .records import (
    CONVOLUTIONS,
    COPY,
    DEVICE,
    FILL,
    LIMIT,
    MEMORY,
    OURS,
    PEER,
    Case,
    Measurement,
    Result,
)
from .timing import interleaved, summaries

_LIMITS = {FILL: "writing the output", COPY: "copying the output"}
PEERS = ("cudnn", "torch", "mxnet", "onnxruntime")


class Request(NamedTuple):
    """What is measured; no dataset is needed.

    Attributes
    ----------
    editions
        Editions of the course whose convolutions are measured.
    backend, device
        "cpu" or "gpu", and the GPU's index.
    kernels
        Names with commas between them, "all" or "ladder" for all of the library's own among them, and paths of kernel
        files.
    against
        Peers with commas between them, out of PEERS, or "none"; None for all that run on the backend. A peer that is
        not installed is left out, and `Result.not_compared` says why.
    layers
        A set of `layers.SETS`, in place of `editions`.
    batch
        Images [default: 10,000 on a GPU, 1,000 on a CPU; each layer's own in a set].
    repeat
        Timed runs of each [default: 20 on a GPU, 12 on a CPU]; slow ones (8 ms, 2 s) get three.
    formats
        To insist on the formats of the kernel files: one name for all, or one for each with commas between them.
    """

    editions: Tuple[str, ...] = ("fa2017",)
    backend: str = "cpu"
    kernels: str = "all"
    against: Optional[str] = None
    batch: Optional[int] = None
    repeat: Optional[int] = None
    device: int = 0
    layers: Optional[str] = None
    formats: Optional[str] = None


def measure(request: Request, progress: Callable[[Case], None] = lambda case: None) -> Result:
    """Check and time convolution kernels.

    Parameters
    ----------
    request
        What to measure.
    progress
        Called with each convolution's case when it is done.

    Returns
    -------
    Result
        Times in milliseconds. A kernel that is wrong is in it, not timed (`Result.wrong`).

    Raises
    ------
    UsageError
        For an unknown edition, kernel or peer, and for numbers below 1.
    DeviceError
        Without a device, or without PyTorch and CuPy on a GPU; when memory does not suffice, or the GPU fails.
    """
    chosen = layers.of_set(request.layers) if request.layers else layers.of_editions(request.editions)
    kernels = _chosen(request)
    asked = requests.peer_names(request.against, PEERS)
    requests.at_least_one(batch=request.batch, repeat=request.repeat)
    machine = open_machine(request.backend, request.device)
    usual_batch, usual_repeat = machine.convolution_defaults
    batch, repeat = request.batch or (None if request.layers else usual_batch), request.repeat or usual_repeat
    shapes = [layer.shape(batch or layer.batch(machine.backend)) for layer in chosen]
    peers, missing = requests.available(
        asked, machine.convolution_peers, machine.backend, asked=request.against is not None
    )
    identity, versions = machine.describe([name for name in peers if requests.package_of(name)])
    options = {
        "layers": request.layers,
        "kernels": request.kernels,
        "format": request.formats,
        "against": request.against,
        "batch": batch,
        "repeat": repeat,
    }
    named = () if request.layers else request.editions
    command = requests.command(CONVOLUTIONS, named, request.backend, **options)
    versions = {"library": build.build_info(), **versions}
    batches = sorted({shape.B for shape in shapes})
    result = Result(CONVOLUTIONS, request.backend, identity, versions, command, batches, repeat, missing)
    for layer, shape in zip(chosen, shapes):
        where = MEMORY if machine.backend == "cpu" else DEVICE
        case = Case(layer.edition, where, shape.B, 0, [], layer.number, shape)
        try:
            _measure(machine, case, kernels, peers, repeat, missing)
        except (MemoryError, RuntimeError) as error:
            raise requests.explained(error, machine.backend) from error
        result.cases.append(case)
        progress(case)
    return result


def _measure(machine, case: Case, kernels, peers, repeat, missing) -> None:
    """Fill in a case: check every contender, then time those that are right."""
    machine.check_convolution(case.shape)
    x, weight = checking.inputs(case.shape, first=case.shape.C in layers.IMAGE_CHANNELS)
    work = machine.convolution(x, weight, case.shape.output)
    picked = checking.picked(case.batch)
    want = reference.convolve(x[picked], weight)
    case.checked = len(picked)
    case.auto = library.chosen_kernel(x.shape, weight.shape, machine.backend)
    limits = work.limits()
    case.rows += [Measurement(limit.name, LIMIT, summary=_LIMITS[limit.name]) for limit, _ in limits]
    timed = [limit for limit, _ in limits]
    table = library.table(machine.backend)
    for name in dict.fromkeys(case.auto if name == "auto" else name for name in kernels):
        if isinstance(name, LoadedKernel):
            row = user_kernels.row_of(name)
            case.rows.append(row)
            contender = user_kernels.checked(machine.backend, work, row, name, picked, want, x, weight)
            timed += [contender] if contender else []
            continue
        step = [info.name for info in table].index(name) + 1
        row = Measurement(name, OURS, step, table[step - 1].summary, table[step - 1].precision)
        case.rows.append(row)
        contender = checking.checked(machine.backend, work, row, picked, want, x, weight)
        if contender:
            timed.append(contender)
    for name in peers:
        try:
            contenders = work.peers(machine.convolution_peers[name])
        except (ImportError, DeviceError) as error:
            missing[name] = " ".join(str(error).split())
            continue
        timed += contenders
        for peer in dict.fromkeys(contender.name for contender in contenders):
            one = next(contender for contender in contenders if contender.name == peer)
            case.rows.append(Measurement(peer, PEER, error=reference.error(one.sample(one.run(), picked), want)))
        for contender in contenders:
            contender.run()  # what it sets up in its first run is not timed
    times = summaries(interleaved(work.clock, timed, repeat))
    for row in case.rows:
        if row.name in times:
            row.take(times[row.name], case.batch)
            row.layer_ms = next((c.clock.layer_ms for c in timed if c.name == row.name and c.clock), None)
    case.rate({limit.name: size for limit, size in limits})


def _chosen(request: Request) -> List[Union[str, LoadedKernel]]:
    """The kernels by their names, and kernel files loaded."""
    backend = request.backend
    words = [word.strip() for word in request.kernels.split(",")]
    insisted = iter(formats.insisted([word for word in words if paths.is_path(word)], request.formats))
    # A file that was loaded before is in the library's table, too.
    loaded = names_of_loaded()
    ladder = [kernel.name for kernel in library.table(backend) if kernel.precision and kernel.name not in loaded]
    names: List[Union[str, LoadedKernel]] = []
    for name in words:
        if paths.is_path(name):
            names.append(load(formats.recognise(name, next(insisted), backend), device=request.device))
        elif name in ("all", "ladder"):
            if not ladder:
                raise DeviceError(
                    "the operator library was built without CUDA: rebuild it with `make setup BACKEND=gpu`"
                )
            names += ladder
        else:
            library.check_kernel(name, backend)
            names.append(name)
    return names
