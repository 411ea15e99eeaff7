"""Compares all outputs of a kernel file in a run of a network, slice by slice, and watches the device's memory."""

from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from ..graph.layers import ConvolutionShape
from ..kernel_files.loading import LoadedKernel
from ..library import devices
from ..system import process
from . import bound, judge
from .bound import ComparedOutputs
from .calls import Cause
from .inputs import Inputs, KeyedStream
from .verdict import ShapeVerdict, Verdict

# Bytes per slice that count as a leak. A caching allocator or a library's handle allocates only in the first calls, but
# a file that allocates a megabyte in every slice leaks it.
_LEAK = 1 << 20

Tensors = Tuple[str, np.ndarray, np.ndarray, np.ndarray]  # a layer's name, data, weights and output


class _Wrong(NamedTuple):
    image: int  # in the run
    shape: ConvolutionShape
    found: ComparedOutputs


class RunObserver:
    """What a kernel file computes in a run. It is called after each slice with the slice's first image and length."""

    def __init__(self, kernel: LoadedKernel, tensors: Callable[[int], Sequence[Tensors]]):
        self.kernel, self._tensors = kernel, tensors
        self._wrong: Dict[str, _Wrong] = {}
        self._exact: Set[str] = set()  # names of layers that are float32 alone
        self._free: List[int] = []
        self._own: List[Optional[int]] = []
        self.images = 0  # that were compared

    def __call__(self, start: int, count: int) -> None:
        """Compare the outputs of a slice, and record the memory after it."""
        if self.kernel.backend == "gpu":
            self._free.append(devices.cuda_devices()[self.kernel.device].memory_free)
            self._own.append(process.device_memory())
        self.images = max(self.images, start + count)
        for name, x, k, y in self._tensors(count):
            if name not in self._wrong:
                inputs = Inputs(x, k)
                # The worst case of a float32 chain is not exceeded by a kernel that is float32 alone.
                allowed = bound.CLASSES[0 if name in self._exact else 2]
                found = bound.compare(y, inputs, KeyedStream.fresh(), False, allowed)
                if not found.right:
                    first = found.first[0] if found.first else int(found.wrong_images.argmax())
                    self._wrong[name] = _Wrong(start + first, inputs.shape, found)

    def expect(self, alone: Verdict) -> None:
        """Compare later slices by the class that each layer has alone."""
        self._exact = {one.what for one in alone.shapes if one.precision == bound.CLASSES[0]}

    @property
    def leaked(self) -> int:
        """Leaked bytes per slice after the first: this process's, or the device's if those are unknown."""
        own = [used for used in self._own if used is not None]
        free = [-used for used in own] if len(own) == len(self._free) else self._free
        steps = [before - after for before, after in zip(free, free[1:])]
        # A leak is reported only if most slices take memory and no slice frees any. A single increase may be memory
        # that is kept for reuse, and a decrease may be due to another program.
        if len(steps) < 2 or min(steps) < 0 or 2 * sum(step >= _LEAK for step in steps) <= len(steps):
            return 0
        return sum(steps) // len(steps)

    def verdict(self, alone: Verdict, changed: int) -> Verdict:
        """Return the verdict on the run: on its own outputs, and on the calls of each layer alone (`alone`).

        `changed` is the number of predictions that differ from those of our kernels.
        """
        shapes = [self._of_layer(one) for one in alone.shapes]
        return alone._replace(shapes=tuple(shapes), changed=changed, leaked=self.leaked)

    def _of_layer(self, alone: ShapeVerdict) -> ShapeVerdict:
        wrong = self._wrong.get(alone.what)
        if wrong is None or not alone.right:
            return alone._replace(shape=alone.shape._replace(B=max(alone.shape.B, self.images)))
        # The reason shows better on the judge's inputs, if the number of images is what makes the outputs incorrect.
        (again,) = judge.check_layers(self.kernel, [judge.Layer(*alone[:2])], images=wrong.shape.B).shapes
        cause = again.cause or Cause("network_data", {"image": wrong.image})
        return alone._replace(cause=cause, precision=bound.INCORRECT, comparison=wrong.found, shape=wrong.shape)
