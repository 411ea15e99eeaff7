"""Measures the lag: the time that a bracket of calls in a worker takes in addition to its kernels.

It is the time of a bracket of a kernel of ours by the referee's clock (messages, switches between contexts, a cold
device), minus that of the same calls in the referee's process by the device's events. It is measured before the first
submission runs, in a box of the same kind. docs/notebook.md describes the alternatives that were tried.
"""

import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

from ...errors import DeviceError
from ...graph.layers import ConvolutionShape
from ...judging.inputs import KeyedStream, random_inputs
from ...library import bindings, kernels
from ...system import compilers, installation
from ..inside import driver
from ..intake.building import BuiltSubmission
from ..referee import memory
from ..referee.memory import place
from ..referee.session import Session
from ..referee.tensors import NO_LAG, Lag
from ..sandbox import Box, Broken, Limits

_SHAPE = ConvolutionShape(5000, 1, 28, 28, 50, 5)
_CALLS = 15  # number of brackets
_WARM = 3  # number of brackets at the beginning that do not count
# Number of floats that are filled between two brackets. In grading, the referee checks outputs on all cores between
# brackets, so that the caches hold other data. The lag must include this effect.
_SWEPT = 64 << 20
_LIMITS = Limits(seconds=30.0, memory=4 << 30, disk=64 << 20, printed=1 << 16)
_KERNEL = "register-tile"  # a kernel of our library
_SOURCE = """
#include "fashion_ops_plugin.h"
static int run(fops_plugin_call* call) {
  call->op_seconds = -1;
  %s
  return fops_conv_forward_gpu("%s", &call->conv, call->x, call->k, call->y, call->stream);
}
static const fops_kernel_plugin plugin = {FOPS_PLUGIN_ABI, FOPS_GPU, 0, 0, 1, "%s", "", "", 0, run};
const fops_kernel_plugin* fops_kernel_plugin_main(void) { return &plugin; }
"""


def built(folder: Path, kernel: str = _KERNEL, before: str = "") -> Optional[BuiltSubmission]:
    """Build a plug-in whose calls run a kernel of our library in a folder; return None if there is no compiler. Each
    call first runs the C code `before`, in which `call` is a pointer to the fops_plugin_call."""
    compiler = compilers.find_cxx()
    if compiler is None:
        return None
    library = bindings.library_path()
    source, target = folder / f"{kernel}.c", folder / f"{kernel}.so"
    source.write_text(_SOURCE % (before, kernel, kernel))
    words = [compiler, "-x", "c", "-shared", "-fPIC", f"-I{installation.resource_dir('include')}", str(source),
             "-x", "none", str(library), f"-Wl,-rpath,{library.parent}", "-ldl", "-o", str(target)]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise DeviceError(f"a kernel of ours does not compile: {' '.join(done.stderr.split())[:300]}")
    return BuiltSubmission("plugin", target, 0.0, False, read=(str(library),))


def queue(shape: ConvolutionShape, x: int, k: int, y: int) -> None:
    conv = kernels.describe(shape.data, shape.weights)
    kernels.launch(_KERNEL, conv, x, k, y, 0)


def measured(gpu: Any, machine: Any) -> Lag:
    """Measure the lag of a `Gpu` in the sandbox of a `referee.Machine`; return `NO_LAG` if there is no compiler."""
    with tempfile.TemporaryDirectory(prefix="fashion-infer.") as folder:
        plugin = built(Path(folder))
        if plugin is None:
            return NO_LAG
        tensors = gpu.tensors([place(_SHAPE)])
        # With a lag of 0, the session subtracts nothing from the measured time.
        tensors.lag = Lag(0.0, float("inf"))
        try:
            box = gpu.shown(Box(_LIMITS, read=(str(plugin.path), *plugin.read)))
            with Session(box, machine.layers, tensors.shared) as session:
                session.load(plugin, True, tensors.shared.device)
                seen = _brackets(session, tensors)[_WARM:]
        except Broken as error:
            raise DeviceError(f"a kernel of ours does not run in the sandbox: {error}") from None
        finally:
            tensors.close()
    turn = max(NO_LAG.turn, 1.5 * statistics.quantiles((bracket.turn for bracket in seen), n=10)[-1])
    return Lag(beside(seen), turn)


class Bracket(NamedTuple):
    taken: float  # from the referee's message to the worker's reply
    alone: float  # time of the same calls in the referee's process, by the device's events
    turn: float  # from the worker's reply until the device answered the referee


def beside(brackets: Sequence[Bracket]) -> float:
    taken, alone = (statistics.median(values) for values in zip(*(bracket[:2] for bracket in brackets)))
    return max(0.0, taken - alone)


def _brackets(session: Session, tensors: Any) -> List[Bracket]:
    bracket, stream = tensors.bracket(True), KeyedStream(b"")
    session.case(_SHAPE, [slot.prepare(_SHAPE, stream) for slot in bracket], tensors.on_device)
    given = random_inputs(stream, _SHAPE)
    swept = np.zeros(_SWEPT, np.float32)
    seen = []

    def queue_all(slots: Sequence[Any]) -> None:
        for slot in slots:
            queue(_SHAPE, *slot.addresses)

    for number in range(_CALLS):
        for slot in bracket:
            slot.fill(given, 0.0)
        memory.fill(swept, number)
        taken = len(bracket) * session.call(number, tensors, bracket).seconds
        turn = tensors.turn
        queue_all(bracket[:1])  # so that the device is busy when the timed work begins
        seen.append(Bracket(taken, driver.timed(lambda: queue_all(bracket)), turn))
    return seen
