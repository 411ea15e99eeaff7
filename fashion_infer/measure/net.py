"""`bench net`: the fused network of the chosen editions, checked, then timed beside its peers by batch size."""

from typing import Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from ..checkpoints import editions
from ..errors import DeviceError, UsageError
from ..library import operators
from ..library.nets import Net
from . import random_network, reference, request
from .machines.net_cuda import CudaNetworks
from .machines.net_host import HostNetworks
from .net_rows import HOST, OURS, PEER, STAGE, Case, Logits, Result, Row
from .random_network import RandomNetwork
from .rows import OK, SKIPPED, WRONG, Contender
from .timing import interleaved, summaries

BATCHES = (1, 16, 256, 10000)
NAME = "fashion-infer"
# Largest error over the range of the logits. Half and TF32 keep 11 bits of each operand, and may change predictions.
_TOLERANCE = {"float32": 2e-6, "tf32": 1e-2, "fp16": 1e-2}
_CHECKED = 256  # images
_PEERS = ("torch", "torch-compile", "onnxruntime", "mxnet")
_RUNS = {16: 300, 1000: 60}  # of batches up to so many images, where --repeat does not say


class _Subject(NamedTuple):
    """A network, what float64 makes of the checked images, and ours at every precision that is right."""

    network: RandomNetwork
    images: np.ndarray
    picked: np.ndarray  # indices of the checked images, for every batch size
    want: np.ndarray  # their outputs; logarithms of scores
    nets: Dict[str, Net]  # by precision
    device: int

    def first_stage(self) -> "_Subject":
        """The same for the layers up to the first pool."""
        part = self.network.first_stage()
        options = {"shape": part.shape, "backend": "gpu", "device": self.device}
        nets = {p: Net(part.symbol, part.weights, precision=p, **options) for p in self.nets}
        return self._replace(network=part, want=reference.run(part.steps, self.images[self.picked]), nets=nets)


def networks(
    edition_names: Sequence[str] = ("fa2017",),
    backend: str = "cpu",
    against: Optional[str] = None,
    batches: Sequence[int] = BATCHES,
    repeat: Optional[int] = None,
    device: int = 0,
    checked: Callable[[Logits], None] = lambda check: None,
    progress: Callable[[Case], None] = lambda case: None,
) -> Result:
    """Check and time whole networks with random weights; no dataset is needed.

    Parameters
    ----------
    edition_names
        Editions of the course.
    backend, device
        "cpu" or "gpu", and the GPU's index.
    against
        Peers with commas between them, out of torch, torch-compile, onnxruntime and mxnet, or "none"; None for all that
        run on the backend. One that is not installed is left out, and `Result.not_compared` says why.
    batches
        Images in a batch, each at least 1.
    repeat
        Timed runs of each [default: 300 of up to 16 images, 60 of up to 1,000, of more 20 on a GPU and 12 on a CPU].
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
    for name in edition_names:
        editions.get(name)
    peers = request.peer_names(against, _PEERS)
    for batch in batches:
        request.at_least_one(batch=batch)
    request.at_least_one(repeat=repeat)
    batches = sorted(set(batches))
    machine = CudaNetworks(device) if backend == "gpu" else HostNetworks()
    available, missing = request.available(peers, machine, asked=against is not None)
    identity, versions = machine.describe(available)
    sizes = ",".join(map(str, batches))
    command = request.command("net", edition_names, backend, against=against, batch=sizes, repeat=repeat)
    versions = {"library": operators.build_info(), **versions}
    result = Result(backend, identity, versions, command, batches, missing)
    for name in edition_names:
        try:
            network = random_network.make(name)
            machine.check(network, max(batches), available)
            subject = _subject(machine, network, device, batches, result, checked)
            for where, batch in machine.cases(batches) if subject.nets else ():
                runs = repeat or next((runs for most, runs in _RUNS.items() if batch <= most), machine.default_repeat)
                case = _case(machine, subject, where, batch, runs, available, missing)
                result.cases.append(case)
                progress(case)
        except (MemoryError, RuntimeError) as error:
            raise request.explained(error, backend) from error
    return result


def _subject(machine, network, device, batches, result, checked) -> _Subject:
    """Check the logits of every precision; only those that are right are run."""
    images = network.images(max(batches))
    picked = np.unique(np.concatenate([_spread(batch) for batch in batches]))
    logits, nets = network.logits(), {}
    want = reference.run(logits.steps, images[picked])
    for precision in machine.precisions:
        check = Logits(network.edition, _name(precision), precision, len(picked))
        options = {"shape": network.shape, "backend": machine.backend, "device": device, "precision": precision}
        try:
            got = Net(logits.symbol, network.weights, **options).forward(images[picked])
            _judge(check, got, want, _TOLERANCE[precision])
            if check.status == OK:
                nets[precision] = Net(network.symbol, network.weights, **options)
        except (DeviceError, UsageError) as error:
            check.status, check.reason = (WRONG if precision == "float32" else SKIPPED), str(error)
        result.logits.append(check)
        checked(check)
    return _Subject(network, images, picked, reference.log_softmax(want), nets, device)


def _case(machine, subject, where, batch, runs, peers, missing) -> Case:
    if where == STAGE:
        subject = subject.first_stage()
    machine.load(where, subject.network, subject.images[:batch])
    picked, want = subject.picked[subject.picked < batch], subject.want[subject.picked < batch]
    rows, timed = [], []
    for precision, net in subject.nets.items():
        row = Row(_name(precision), OURS, precision)
        rows.append(row)
        timed += _checked(machine, row, net, where, picked, want)
    for name in list(peers):
        try:
            found = machine.peers(name)
        except (ImportError, DeviceError) as error:
            missing[name] = f"{' '.join(str(error).split())} ({subject.network.edition}, batch {batch})"
            peers.remove(name)
            continue
        for contender in found:
            output = contender.run()  # what it sets up in its first run is not timed
            if contender.name not in (row.name for row in rows):
                row = Row(contender.name, PEER)
                rows.append(row)
                _compare(row, contender.sample(output, picked), want, where)
        timed += found
    times = summaries(interleaved(machine.clock(where), timed, runs))
    for row in rows:
        if row.name in times:
            row.take(times[row.name], batch)
    medians = {row.name: row.median_ms for row in rows if row.kind == PEER}
    for row in rows:
        if row.kind == OURS and row.median_ms is not None:
            row.faster_than = {peer: ms / row.median_ms for peer, ms in medians.items()}
    return Case(subject.network.edition, where, batch, len(picked), rows)


def _checked(machine, row, net, where, picked, want) -> List[Contender]:
    """Ours on the case's images, when it is right; else nothing, and the row says why."""
    # A score's logarithm is a difference of logits, each with an error of its own.
    tolerance = (1 if where == STAGE else 2) * _TOLERANCE[row.precision]
    ways = machine.ours(row.name, net)
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
