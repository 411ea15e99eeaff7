"""`bench net`: the fused network of the chosen editions, checked, then timed beside its peers by batch size."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..checkpoints import editions
from ..errors import DeviceError, UsageError
from ..judging import reference
from ..library import build
from ..library.fused import FusedNetwork
from . import random_network
from . import request as requests
from .machines import open_machine
from .random_network import RandomNetwork
from .records import HOST, NETWORKS, OK, OURS, PEER, SKIPPED, STAGE, WRONG, Case, Check, Measurement, Result
from .timing import Contender, interleaved, summaries

BATCHES = (1, 16, 256, 10000)
NAME = "fashion-infer"
PEERS = ("torch", "torch-compile", "onnxruntime", "mxnet")
# Largest error over the range of the logits. fp16 and TF32 keep 11 bits of each operand, and may change predictions.
_TOLERANCE = {"float32": 2e-6, "tf32": 1e-2, "fp16": 1e-2}
_CHECKED = 256  # images
_RUNS = {16: 300, 1000: 60}  # of batches up to so many images, where --repeat does not say


class Request(NamedTuple):
    """What is measured: whole networks with random weights; no dataset is needed.

    Attributes
    ----------
    editions
        Editions of the course.
    backend, device
        "cpu" or "gpu", and the GPU's index.
    against
        Peers with commas between them, out of PEERS, or "none"; None for all that run on the backend. A peer that is
        not installed is left out, and `Result.not_compared` says why.
    batches
        Images in a batch, each at least 1.
    repeat
        Timed runs of each [default: 300 of up to 16 images, 60 of up to 1,000, of more 20 on a GPU and 12 on a CPU].
    """

    editions: Tuple[str, ...] = ("fa2017",)
    backend: str = "cpu"
    against: Optional[str] = None
    batches: Sequence[int] = BATCHES
    repeat: Optional[int] = None
    device: int = 0


class _Subject(NamedTuple):
    """A network, its outputs in float64 for the checked images, and ours at every precision that is right."""

    network: RandomNetwork
    images: np.ndarray
    picked: np.ndarray  # indices of the checked images, for every batch size
    want: np.ndarray  # their outputs; logarithms of scores
    ours: Dict[str, FusedNetwork]  # by precision
    device: int

    def first_stage(self) -> "_Subject":
        """The same for the layers up to the first pool."""
        part = self.network.first_stage()
        options: Dict[str, Any] = {"shape": part.shape, "backend": "gpu", "device": self.device}
        ours = {p: FusedNetwork(part.symbol, part.weights, precision=p, **options) for p in self.ours}
        want = reference.run(part.layers, part.weights, self.images[self.picked])
        return self._replace(network=part, want=want, ours=ours)


def measure(
    request: Request,
    checked: Callable[[Check], None] = lambda check: None,
    progress: Callable[[Case], None] = lambda case: None,
) -> Result:
    """Check and time whole networks.

    Parameters
    ----------
    request
        What to measure.
    checked, progress
        Called with each check and each case when it is done.

    Returns
    -------
    Result
        Times in milliseconds. A network that is wrong is in it, not timed (`Result.wrong`).

    Raises
    ------
    UsageError
        For an unknown edition or peer, and for numbers below 1.
    DeviceError
        Without a device, or without PyTorch and CuPy on a GPU; when memory does not suffice, or the GPU fails.
    """
    for name in request.editions:
        editions.get(name)
    asked = requests.peer_names(request.against, PEERS)
    for batch in request.batches:
        requests.at_least_one(batch=batch)
    requests.at_least_one(repeat=request.repeat)
    batches = sorted(set(request.batches))
    machine = open_machine(request.backend, request.device)
    peers, missing = requests.available(
        asked, machine.network_peers, machine.backend, asked=request.against is not None
    )
    identity, versions = machine.describe(peers)
    options = {"against": request.against, "batch": ",".join(map(str, batches)), "repeat": request.repeat}
    command = requests.command(NETWORKS, request.editions, request.backend, **options)
    versions = {"library": build.build_info(), **versions}
    result = Result(NETWORKS, request.backend, identity, versions, command, batches, request.repeat, missing)
    for name in request.editions:
        try:
            network = random_network.build(name)
            machine.check_network(network, max(batches), peers)
            subject = _subject(machine, network, request.device, result, checked)
            for where, batch in machine.cases(batches) if subject.ours else ():
                usual = next((runs for most, runs in _RUNS.items() if batch <= most), machine.network_repeat)
                case = _case(machine, subject, where, batch, request.repeat or usual, peers, missing)
                result.cases.append(case)
                progress(case)
        except (MemoryError, RuntimeError) as error:
            raise requests.explained(error, machine.backend) from error
    return result


def _subject(machine, network, device, result, checked) -> _Subject:
    """Check the logits of every precision; only those that are right are run."""
    images = network.images(max(result.batches))
    picked = np.unique(np.concatenate([_spread(batch) for batch in result.batches]))
    logits, ours = network.logits(), {}
    want = reference.run(logits.layers, logits.weights, images[picked])
    for precision in machine.precisions:
        check = Check(network.edition, _name(precision), precision, len(picked))
        options = {"shape": network.shape, "backend": machine.backend, "device": device, "precision": precision}
        try:
            got = FusedNetwork(logits.symbol, network.weights, **options).forward(images[picked])
            _judge(check, got, want, _TOLERANCE[precision])
            if check.status == OK:
                ours[precision] = FusedNetwork(network.symbol, network.weights, **options)
        except (DeviceError, UsageError) as error:
            check.status, check.reason = (WRONG if precision == "float32" else SKIPPED), str(error)
        result.logits.append(check)
        checked(check)
    return _Subject(network, images, picked, reference.log_softmax(want), ours, device)


def _case(machine, subject, where, batch, runs, peers, missing) -> Case:
    if where == STAGE:
        subject = subject.first_stage()
    work = machine.network(where, subject.network, subject.images[:batch])
    picked, want = subject.picked[subject.picked < batch], subject.want[subject.picked < batch]
    case, timed = Case(subject.network.edition, where, batch, len(picked)), []
    for precision, fused in subject.ours.items():
        row = Measurement(_name(precision), OURS, precision=precision)
        case.rows.append(row)
        timed += _checked(work, row, fused, where, picked, want)
    for name in list(peers):
        try:
            contenders = work.peers(machine.network_peers[name])
        except (ImportError, DeviceError) as error:
            missing[name] = f"{' '.join(str(error).split())} ({case.edition}, batch {batch})"
            peers.remove(name)
            continue
        for contender in contenders:
            output = contender.run()  # what it sets up in its first run is not timed
            if contender.name not in (row.name for row in case.rows):
                row = Measurement(contender.name, PEER)
                case.rows.append(row)
                _compare(row, contender.sample(output, picked), want, where)
        timed += contenders
    times = summaries(interleaved(work.clock, timed, runs))
    for row in case.rows:
        if row.name in times:
            row.take(times[row.name], batch)
    case.compare()
    return case


def _checked(work, row, fused, where, picked, want) -> List[Contender]:
    """Ours on the case's images, when it is right; else nothing, and the row says why."""
    # A score's logarithm is a difference of logits, each with an error of its own.
    tolerance = (1 if where == STAGE else 2) * _TOLERANCE[row.precision]
    ways = work.ours(row.name, fused)
    try:
        for way in ways:
            _compare(row, way.sample(way.run(), picked), want, where, tolerance)
            if row.status == WRONG:
                return []
    except (DeviceError, UsageError) as error:
        row.status, row.reason = WRONG, str(error)
        return []
    return ways


def _compare(row, got, want, where, tolerance=None):
    """Put into the row what differs from float64; with a tolerance, whether it is wrong."""
    if where == HOST:
        row.changed = int((got != want.argmax(axis=1)).sum())
        if tolerance is not None and row.precision == "float32" and row.changed:
            row.status, row.reason = WRONG, f"{row.changed} of {len(want)} predictions differ"
        return
    got = got.reshape(want.shape)
    if where != STAGE:
        with np.errstate(divide="ignore", invalid="ignore"):
            got = np.log(got.astype(np.float64))
    _judge(row, got, want, tolerance, classes=where != STAGE)


def _judge(row, got, want, tolerance, classes=True):
    worst = np.abs(got - want)
    row.error = float(np.where(np.isnan(worst), np.inf, worst).max() / max(want.max() - want.min(), 1e-30))
    if classes:
        row.changed = int((got.argmax(axis=1) != want.argmax(axis=1)).sum())
    if tolerance is None:
        return
    if not row.error <= tolerance:
        row.status, row.reason = WRONG, f"error {row.error:.1e} of the range, more than {tolerance:.0e}"
    elif row.precision == "float32" and row.changed:
        row.status, row.reason = WRONG, f"{row.changed} of {len(want)} predictions differ"


def _name(precision):
    return NAME if precision == "float32" else f"{NAME} {precision}"


def _spread(batch):
    """Indices of the images that are checked: evenly over the batch, the first and the last among them."""
    return np.unique(np.linspace(0, batch - 1, min(_CHECKED, batch)).astype(int))
