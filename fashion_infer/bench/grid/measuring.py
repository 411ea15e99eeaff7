"""The grid, measured: `auto` is checked and timed at each point beside its peers, within a budget of time a point."""

import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ...errors import DeviceError
from ...library import build
from ...library import kernels as library
from .. import checking
from .. import request as requests
from ..machines import open_machine
from ..records import (
    CONVOLUTIONS,
    DEVICE,
    FILL,
    LIMIT,
    MEMORY,
    OURS,
    PEER,
    WRONG,
    Case,
    Measurement,
    Result,
)
from ..timing import interleaved, summaries
from . import exact, points, standing

PEERS = ("cudnn", "mxnet", "onnxruntime", "torch")
_USUAL_PEERS = "cudnn,mxnet,onnxruntime"
_LEAST_RUNS, _MOST_RUNS = 3, 20
_CHECKED_PRECISION = "float32"  # `auto` runs no other kernel


class Request(NamedTuple):
    """What is measured.

    Attributes
    ----------
    backend, device
        "cpu" or "gpu", and the GPU's index.
    batches
        Numbers of images, or `points.LARGEST`; None for `points.BATCHES`.
    full, seed
        All points, or a sample that the seed decides.
    against
        Peers with commas between them, or "none"; None for cuDNN on a GPU, and for MXNet and ONNX Runtime on a CPU.
    seconds
        When to stop: no point is begun later. None for never.
    """

    backend: str = "cpu"
    device: int = 0
    batches: Optional[Tuple[points.Batch, ...]] = None
    full: bool = False
    seed: int = 1
    against: Optional[str] = None
    seconds: Optional[float] = None


@dataclass
class GridResult(Result):
    """A benchmark of the grid."""

    seed: int = 1
    full: bool = False
    asked: int = 0  # points; fewer are in `cases` when the time ran out

    def as_dict(self) -> Dict[str, Any]:
        """Everything, and how ours stands, for JSON."""
        return {**super().as_dict(), "standings": [each.as_dict() for each in standing.standings(self)]}


def measure(request: Request, progress: Callable[[Case, int, int], None] = lambda *_: None) -> GridResult:
    """Check and time `auto` over the grid.

    Parameters
    ----------
    request
        What to measure.
    progress
        Called with each point's case when it is done, its place among all, and their number.

    Raises
    ------
    UsageError
        For an unknown peer.
    DeviceError
        Without a device, or without PyTorch on a GPU; when memory does not suffice, or the GPU fails.
    """
    batches = request.batches or points.BATCHES[request.backend]
    asked = requests.peer_names(request.against or _USUAL_PEERS, PEERS)
    machine = open_machine(request.backend, request.device)
    chosen = points.chosen(batches, request.full, request.seed)
    machine.check_drawn(max((point.shape for point in chosen), key=lambda shape: shape.bytes))
    peers, missing = requests.available(
        asked, machine.convolution_peers, machine.backend, asked=request.against is not None
    )
    identity, versions = machine.describe([name for name in peers if requests.package_of(name)])
    versions = {"library": build.build_info(), **versions}
    sizes = sorted({point.shape.B for point in chosen})
    result = GridResult(
        CONVOLUTIONS, request.backend, identity, versions, _command(request), sizes, None, missing,
        seed=request.seed, full=request.full, asked=len(chosen),
    )  # fmt: skip
    began = time.monotonic()
    for index, point in enumerate(chosen, 1):
        if request.seconds is not None and time.monotonic() - began > request.seconds:
            break
        where = MEMORY if machine.backend == "cpu" else DEVICE
        case = Case(f"grid, {point.group}", where, point.shape.B, 0, [], point.number, point.shape)
        try:
            _measure(machine, case, point.pixels, peers, missing, request.seed + index)
        except (MemoryError, RuntimeError) as error:
            raise requests.explained(error, machine.backend) from error
        result.cases.append(case)
        progress(case, index, len(chosen))
    return result


def _command(request: Request) -> str:
    options = {
        "batches": request.batches and ",".join(map(str, request.batches)),
        "seed": request.seed,
        "against": request.against,
        "seconds": request.seconds,
    }
    flags = " --grid --full" if request.full else " --grid"
    return requests.command(CONVOLUTIONS, (), request.backend, **options) + flags


def _measure(machine, case: Case, pixels: bool, peers, missing, seed: int) -> None:
    """Fill in a case: check ours, then time it, the limit and the peers in turns."""
    machine.release()
    shape = case.shape
    work = machine.drawn(shape, pixels, seed)
    case.auto = library.chosen_kernel(shape[:4], (shape.M, shape.C, shape.K, shape.K), machine.backend)
    limit = work.limits()[0][0]
    case.rows = [Measurement(FILL, LIMIT), Measurement(case.auto, OURS, precision=_CHECKED_PRECISION)]
    ours = _checked(work, case, seed)
    contenders = [limit, *([ours] if ours else []), *_peers(machine, work, case, peers, missing)]
    limit.run()
    once = sum((contender.clock or work.clock).time(contender.run, 1)[0] for contender in contenders)
    repeat = int(min(_MOST_RUNS, max(_LEAST_RUNS, machine.point_seconds / once)))
    times = summaries(interleaved(work.clock, contenders, repeat))
    for row in case.rows:
        if row.name in times:
            row.take(times[row.name], case.batch)
    case.compare()


def _checked(work, case: Case, seed: int):
    """Ours, when its outputs are within the bound; else None, and the row says why."""
    row = case.rows[-1]
    at = exact.positions(case.shape, np.random.default_rng(seed))
    contender = work.kernel(case.auto)
    ran = checking.first_run(work, contender, row)
    if ran is None:
        return None
    row.error, row.of_bound = exact.worst(contender.sample(ran.output, at.images), *work.inputs(at.images), at)  # type: ignore[call-arg]  # mypy gives a starred sequence any length
    case.checked = len(at.image)
    if ran.complete and not row.of_bound <= 1:
        row.status, row.reason = WRONG, f"an error of {row.of_bound:.2g} times the float32 bound"
    # Beyond the bound its time still says something, and `wrong` says the rest.
    return contender if ran.complete else None


def _peers(machine, work, case: Case, names, missing) -> List:
    """The peers' ways that run this shape, run once: what they set up or search for then is not timed."""
    found = []
    for name in names:
        try:
            contenders = work.peers(machine.convolution_peers[name])
        except (ImportError, DeviceError) as error:
            missing[name] = " ".join(str(error).split())
            continue
        for contender in contenders:
            try:
                contender.run()
            except RuntimeError:  # a shape, or a search for the best algorithm, that this way has no memory for
                continue
            found.append(contender)
    case.rows += [Measurement(name, PEER) for name in dict.fromkeys(contender.name for contender in found)]
    return found
