"""How long the way to a worker and back takes here, measured with a kernel of ours that fills an output.

A call in a sandbox takes longer than its kernels: two words between processes, a launch, the device's turn from one
context to another and back, and a device that begins cold: 0.2 to 0.3 ms together, once for all the calls of a bracket.
That is no part of a submission's time. The lag is what a bracket of fills takes by the referee's clock, less what the
same fills take in the referee's own process by the device's events, which are `bench conv`'s clock. It is measured
before any submission is there, by a worker of the same kind in a box of the same kind: nothing that is graded has a say
in it.

On an H200 that is 0.26 to 0.30 ms, whether of fills or of kernels that take twice as long. (Two brackets, of n and 2n
fills, and the line through them gave 0.19 to 0.23 ms: too little, and a layer of 0.34 ms came out up to 4% too long.)
"""

import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

from ...errors import DeviceError
from ...graph.shapes import ConvolutionShape
from ...system import compilers, resources
from ..intake.building import Plugin
from ..referee import inputs
from ..referee.memory import place
from ..referee.session import Session
from ..referee.tensors import NO_LAG, Lag
from ..sandbox import Box, Broken, Limits

_SOURCE = """
#include <dlfcn.h>
#include <stddef.h>
#include "fashion_ops_plugin.h"
static int run(fops_plugin_call* call) {
  typedef int function(unsigned long long, unsigned, size_t);
  static function* fill;
  if (!fill) fill = (function*)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemsetD32_v2");
  call->op_seconds = -1;
  return fill((unsigned long long)call->y, 0, OUTPUTS) ? FOPS_DEVICE_ERROR : FOPS_OK;
}
static const fops_kernel_plugin plugin = {FOPS_PLUGIN_ABI, FOPS_GPU, 0, 0, 1, "lag", "", "", 0, run};
const fops_kernel_plugin* fops_kernel_plugin_main(void) { return &plugin; }
"""
_SHAPE = ConvolutionShape(5000, 1, 28, 28, 50, 5)  # 0.12 ms on an H200
_CALLS, _WARM = 20, 5
_LIMITS = Limits(seconds=30.0, memory=4 << 30, disk=64 << 20, printed=1 << 16)


def measured(gpu: Any, machine: Any) -> Lag:
    """The lag of a device; that of no measurement where no compiler is.

    Parameters
    ----------
    gpu
        A `Gpu`.
    machine
        A `referee.Machine`: its sandbox.

    Raises
    ------
    DeviceError
        When the worker fails.
    """
    with tempfile.TemporaryDirectory(prefix="fashion-infer.") as folder:
        plugin = _built(Path(folder))
        if plugin is None:
            return NO_LAG
        tensors = gpu.tensors([place(_SHAPE)])
        # Seconds are taken as they are.
        tensors.lag = Lag(0.0, float("inf"))
        try:
            box = gpu.shown(Box(_LIMITS, read=(str(plugin.path), *plugin.read)))
            with Session(box, machine.layers, tensors.shared, machine.unsandboxed) as session:
                session.load(plugin, True, tensors.shared.device)
                seen = _brackets(session, tensors)[_WARM:]
        except Broken as error:
            raise DeviceError(f"a kernel of ours does not run in the sandbox: {error}") from None
        finally:
            tensors.close()
    turn = max(NO_LAG.turn, 1.5 * statistics.quantiles((bracket.turn for bracket in seen), n=10)[-1])
    return Lag(beside(seen), turn)


class Bracket(NamedTuple):
    """One bracket of fills, in seconds."""

    taken: float  # from the referee's word to the worker's
    alone: float  # the same fills in the referee's process, by the device's events
    turn: float  # until the device answered the referee behind it


def beside(brackets: Sequence[Bracket]) -> float:
    """Seconds of a bracket beside its calls; never less than none."""
    taken, alone = (statistics.median(values) for values in zip(*(bracket[:2] for bracket in brackets)))
    return max(0.0, taken - alone)


def _brackets(session: Session, tensors: Any) -> List[Bracket]:
    bracket, rng = tensors.bracket(True), np.random.default_rng(0)
    session.case(_SHAPE, [slot.prepare(_SHAPE, rng) for slot in bracket], tensors.on_device)
    given = inputs.fresh(rng, _SHAPE, True)
    seen = []
    for number in range(_CALLS):
        for slot in bracket:
            slot.fill(given, 0.0)
        alone = sum(slot.alone(0.0) for slot in bracket)
        taken = len(bracket) * session.call(number, tensors, bracket).seconds
        seen.append(Bracket(taken, alone, tensors.turn))
    return seen


def _built(folder: Path) -> Optional[Plugin]:
    compiler = compilers.find_cxx()
    if compiler is None:
        return None
    source, target = folder / "lag.c", folder / "lag.so"
    source.write_text(_SOURCE)
    include = f"-I{resources.resource_dir('include')}"
    outputs = f"-DOUTPUTS={int(np.prod(_SHAPE.output))}"
    words = [compiler, "-x", "c", "-shared", "-fPIC", include, outputs, str(source), "-o", str(target), "-ldl"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise DeviceError(f"a kernel of ours does not compile: {' '.join(done.stderr.split())[:300]}")
    return Plugin("plugin", target, 0.0, False)
