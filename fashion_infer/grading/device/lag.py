"""How long the way to a worker and back takes here, measured with a kernel of ours that does next to nothing.

A call in a sandbox takes longer than its kernels: two words between processes, a launch, and the device's turn from one
context to another and back, 0.1 to 0.5 ms together. That is no part of a submission's time. It is measured before any
submission is there, by a worker of the same kind in a box of the same kind: nothing that is graded has a say in it.
"""

import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Optional

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

# One float32 is filled: some 2 microseconds of the device, behind a launch as any.
_SOURCE = """
#include <dlfcn.h>
#include <stddef.h>
#include "fashion_ops_plugin.h"
static int run(fops_plugin_call* call) {
  typedef int function(unsigned long long, unsigned, size_t);
  static function* fill;
  if (!fill) fill = (function*)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemsetD32_v2");
  call->op_seconds = -1;
  return fill((unsigned long long)call->y, 0, 1) ? FOPS_DEVICE_ERROR : FOPS_OK;
}
static const fops_kernel_plugin plugin = {FOPS_PLUGIN_ABI, FOPS_GPU, 0, 0, 1, "lag", "", "", 0, run};
const fops_kernel_plugin* fops_kernel_plugin_main(void) { return &plugin; }
"""
_SHAPE = ConvolutionShape(1, 1, 28, 28, 1, 5)
_CALLS, _WARM = 40, 5
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
        tensors = gpu.tensors(place(_SHAPE).end)
        # Seconds are taken as they are.
        tensors.lag = Lag(0.0, float("inf"))
        words, turns = [], []
        try:
            box = gpu.shown(Box(_LIMITS, read=(str(plugin.path), *plugin.read)))
            with Session(box, machine.layers, tensors.shared, machine.unsandboxed) as session:
                session.load(plugin, True, tensors.shared.device)
                rng, bracket = np.random.default_rng(0), tensors.bracket(False)
                session.case(_SHAPE, [slot.prepare(_SHAPE, rng) for slot in bracket], tensors.on_device)
                for number in range(_CALLS):
                    for slot in bracket:
                        slot.fill(inputs.fresh(rng, _SHAPE, True), 0.0)
                    words.append(session.call(number, tensors, bracket).seconds)
                    turns.append(tensors.turn)
        except Broken as error:
            raise DeviceError(f"a kernel of ours does not run in the sandbox: {error}") from None
        finally:
            tensors.close()
    word = statistics.median(words[_WARM:])
    return Lag(word, max(NO_LAG.turn, 1.5 * statistics.quantiles(turns[_WARM:], n=10)[-1]))


def _built(folder: Path) -> Optional[Plugin]:
    compiler = compilers.find_cxx()
    if compiler is None:
        return None
    source, target = folder / "lag.c", folder / "lag.so"
    source.write_text(_SOURCE)
    include = f"-I{resources.resource_dir('include')}"
    words = [compiler, "-x", "c", "-shared", "-fPIC", include, str(source), "-o", str(target), "-ldl"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise DeviceError(f"a kernel of ours does not compile: {' '.join(done.stderr.split())[:300]}")
    return Plugin("plugin", target, 0.0, False)
