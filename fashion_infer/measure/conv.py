"""`bench conv`: every kernel on every convolution of the chosen editions, checked, then timed beside its peers."""

import math
from typing import Callable, Dict, List, Optional, Sequence

import numpy as np

from ..checkpoints import editions
from ..errors import DeviceError, UsageError
from ..library import operators
from . import reference, request
from .machines.cuda import Cuda
from .machines.host import Host, check_memory
from .rows import COPYING, KERNEL, LIMIT, PEER, SKIPPED, WRONG, Contender, Layer, Result, Row
from .timing import Summary, interleaved, summaries

# Largest error over the output's largest magnitude. Half and TF32 keep 11 bits of each operand.
_TOLERANCE = {"float32": 5e-6, "tf32": 2e-3, "float16": 2e-3}
_CHECKED = 16  # images checked at either end of the batch
_PEERS = ("cudnn", "torch", "mxnet", "onnxruntime")


def convolutions(
    edition_names: Sequence[str] = ("fa2017",),
    backend: str = "cpu",
    kernels: str = "all",
    against: Optional[str] = None,
    batch: Optional[int] = None,
    repeat: Optional[int] = None,
    device: int = 0,
    progress: Callable[[Layer], None] = lambda layer: None,
) -> Result:
    """Check and time convolution kernels; no dataset is needed.

    Parameters
    ----------
    edition_names
        Editions of the course whose convolutions are measured.
    backend, device
        "cpu" or "gpu", and the GPU's index.
    kernels
        "all", or names with commas between them.
    against
        Peers with commas between them, out of cudnn, torch, mxnet and onnxruntime, or "none"; None for all that run on
        the backend. One that is not installed is left out, and `Result.not_compared` says why.
    batch
        Images [default: 10,000 on a GPU, 1,000 on a CPU].
    repeat
        Timed runs of each [default: 20 on a GPU, 12 on a CPU]; slow ones (8 ms, 2 s) get three.
    progress
        Called with each layer when it is done.

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
    chosen = [editions.get(name) for name in edition_names]
    names = _kernel_names(kernels, backend)
    peers = request.peer_names(against, _PEERS)
    request.at_least_one(batch=batch, repeat=repeat)
    machine = Cuda(device) if backend == "gpu" else Host()
    batch, repeat = batch or machine.default_batch, repeat or machine.default_repeat
    available, missing = request.available(peers, machine, asked=against is not None)
    identity, versions = machine.describe()
    command = request.command(
        "conv", edition_names, backend, kernels=kernels, against=against, batch=batch, repeat=repeat
    )
    versions = {"library": operators.build_info(), **versions}
    result = Result(backend, identity, versions, command, batch, repeat, missing, [])
    for edition in chosen:
        for number, shape in enumerate(editions.convolution_shapes(edition), 1):
            try:
                layer = _layer(machine, edition.name, number, shape, names, available, batch, repeat, missing)
            except (MemoryError, RuntimeError) as error:
                raise request.explained(error, backend) from error
            result.layers.append(layer)
            progress(layer)
    return result


def _layer(machine, edition, number, shape, names, peers, batch, repeat, missing):
    channels, side, filters, k = shape
    y_shape = (batch, filters, side - k + 1, side - k + 1)
    x_size, y_size = batch * channels * side * side, math.prod(y_shape)
    # Ours, and those of one peer at a time.
    check_memory(8 * x_size + (12 * y_size if machine.backend == "cpu" else 0))
    x, weight = _inputs(channels, side, filters, k, batch, first=number == 1)
    machine.load(x, weight, y_shape)
    picked = _picked(batch)
    want = reference.convolve(x[picked], weight)
    table = operators.kernels(machine.backend)
    auto = operators.chosen_kernel(x.shape, weight.shape, machine.backend)
    limits = machine.limits()
    rows = [Row(limit.name, COPYING) for limit, _ in limits]
    timed = [limit for limit, _ in limits]
    for name in dict.fromkeys(auto if name == "auto" else name for name in names):
        step = [info.name for info in table].index(name) + 1
        info = table[step - 1]
        row = Row(name, KERNEL, step, info.summary, info.precision)
        rows.append(row)
        contender = _checked(machine, row, picked, want, x.shape, weight.shape)
        if contender:
            timed.append(contender)
    for name in peers:
        try:
            found = machine.peers(name)
        except (ImportError, DeviceError) as error:
            missing[name] = " ".join(str(error).split())
            continue
        timed += found
        for peer in dict.fromkeys(contender.name for contender in found):
            best = next(contender for contender in found if contender.name == peer)
            rows.append(Row(peer, PEER, error=_error(best.sample(best.run(), picked), want)))
        for contender in found:
            contender.run()  # what it sets up in its first run is not timed
    times = summaries(interleaved(machine, timed, repeat))
    flop = 2 * math.prod(y_shape) * channels * k * k
    moved = {limit.name: size for limit, size in limits}
    _fill_in(rows, times, flop, moved, x.nbytes + weight.nbytes + 4 * math.prod(y_shape))
    return Layer(edition, number, (batch, channels, side, side, filters, k), auto, rows)


def _inputs(channels, side, filters, k, batch, first):
    """Pixels for a first layer, values like tanh's for a later one; the same on every machine."""
    rng = np.random.default_rng(channels * 1000 + side)
    shape = (batch, channels, side, side)
    if first:
        x = rng.integers(0, 256, shape, dtype=np.uint8).astype(np.float32)
    else:
        x = rng.random(shape, dtype=np.float32)
        x *= 2
        x -= 1
    return x, rng.standard_normal((filters, channels, k, k)).astype(np.float32)


def _picked(batch):
    """Indices of the images that are checked: the first, the last, and some between."""
    ends = np.r_[0 : min(_CHECKED, batch), max(0, batch - _CHECKED) : batch]
    return np.unique(np.r_[ends, np.linspace(0, batch - 1, _CHECKED).astype(int)])


def _error(got, want):
    worst = np.abs(got - want)
    return float(np.where(np.isnan(worst), np.inf, worst).max() / max(np.abs(want).max(), 1e-30))


def _checked(machine, row, picked, want, x_shape, k_shape) -> Optional[Contender]:
    """The kernel, when it takes the layer and is right; else None, and the row says why."""
    try:
        operators.chosen_kernel(x_shape, k_shape, machine.backend, row.name)
    except UsageError as error:
        row.status, row.reason = SKIPPED, str(error)
        return None
    contender = machine.kernel(row.name)
    machine.poison()
    try:
        y = contender.run()
        complete = machine.complete()
    except (DeviceError, UsageError) as error:
        row.status, row.reason = WRONG, str(error)
        return None
    row.error = _error(contender.sample(y, picked), want)
    if not complete:
        row.status, row.reason = WRONG, "some of the output was never written, or is NaN"
    elif not row.error <= _TOLERANCE[row.precision]:
        row.status, row.reason = WRONG, f"error {row.error:.1e}, more than {_TOLERANCE[row.precision]:.0e}"
    return None if row.status == WRONG else contender


def _fill_in(rows: List[Row], times: Dict[str, Summary], flop: int, moved: Dict[str, int], layer_bytes: int):
    """Put the measured times into the rows, and what follows from them."""
    for row in rows:
        if row.name in times:
            summary = times[row.name]
            row.layout, row.runs, row.median_ms, row.min_ms = (
                summary.layout,
                summary.runs,
                summary.median_ms,
                summary.min_ms,
            )
    limit = next(row.median_ms for row in rows if row.name == LIMIT)
    peers = {row.name: row.median_ms for row in rows if row.kind == PEER}
    for row in rows:
        if row.median_ms is None:
            continue
        row.gb_s = moved.get(row.name, layer_bytes) / row.median_ms / 1e6
        if row.kind != COPYING:
            row.tflop_s = flop / row.median_ms / 1e9
            row.percent_of_limit = 100 * limit / row.median_ms
            row.faster_than = {peer: ms / row.median_ms for peer, ms in peers.items() if peer != row.name}


def _kernel_names(kernels, backend):
    if kernels == "all":
        known = operators.kernels(backend)
        if not known:
            raise DeviceError("the operator library was built without CUDA: rebuild it with `make setup BACKEND=gpu`")
        return [kernel.name for kernel in known]
    names = [name.strip() for name in kernels.split(",")]
    for name in names:
        operators.check_kernel(name, backend)
    return names
