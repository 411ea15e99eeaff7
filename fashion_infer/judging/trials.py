"""Trials of a kernel file: the layers of the course's networks, and sizes that it was not written for."""

from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..checkpoints import editions
from ..errors import FashionInferError, UsageError
from ..kernel_files import plugin, requirements
from ..kernel_files.loading import LoadedKernel
from ..library import bindings, kernels, op_times
from .diagnosis import Diagnosis, diagnose

Shape = Tuple[int, int, int, int]  # input channels, input size, filters, kernel size

# Odd sizes, one of everything, a kernel as large as the image, more filters than a tile has.
OTHER_SHAPES: Tuple[Shape, ...] = ((3, 13, 5, 3), (1, 1, 1, 1), (2, 6, 3, 6), (5, 37, 67, 4))
_FEW = 3  # images a call, where nothing asks for more
_SOME = 8  # images at either end, and between, that are compared first
_YEARS = {
    "mxnet": ("fa2017", "sp2018", "fa2018", "sp2019", "fa2019"),
    "minidnn": ("fa2020",),
}


class Tried(NamedTuple):
    """One shape of a check."""

    what: str  # the edition and the number of its layer, or "another size"
    shape: Tuple[int, int, int, int, int, int]  # B, C, H, W, M, K
    diagnosis: Optional[Diagnosis]  # None when the call failed
    failure: str  # why it did; "" when it did not
    op_seconds: float
    layer_seconds: float  # 0 where the format has no phases
    findings: Tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether the output was right."""
        return self.diagnosis is not None and self.diagnosis.right


class Checked(NamedTuple):
    """What a check found."""

    kernel: LoadedKernel
    tried: Tuple[Tried, ...]
    reason: str  # that only several shapes together show; "" for none

    @property
    def right(self) -> bool:
        """Whether every layer of its editions is right; other sizes are extra."""
        return all(one.right for one in self.tried if one.what != "another size")


def years_of(format: str) -> Tuple[str, ...]:
    """The editions that files of a format were made for; none where it is of no year."""
    return _YEARS.get(format.split("-")[0], ())


def layers_of(format: str) -> List[Tuple[str, Shape]]:
    """The convolutions that a format's years had, each with its edition's name."""
    known = {name: tuple(editions.convolution_shapes(edition)) for name, edition in editions.EDITIONS.items()}
    names = years_of(format) or tuple(sorted(known))
    return [
        (f"{name}, layer {number}", shape)
        for name in names
        for number, shape in enumerate(known.get(name, ()), start=1)
    ]


def check(
    kernel: LoadedKernel,
    images: Optional[int] = None,
    shapes: Optional[Sequence[Shape]] = None,
    seed: int = 0,
    device: int = 0,
) -> Checked:
    """Compare what a kernel file computes with the float64 reference, under examination.

    Parameters
    ----------
    kernel
        The file, loaded.
    images
        Images per call; None for 3 on the CPU, and on the GPU as many as the format's files ask for.
    shapes
        Sizes to try in place of the editions' layers.
    seed
        Seed of the random images and weights.
    device
        Index of the GPU, for a file that runs on one.

    Returns
    -------
    Checked
        With everything that went wrong in a call.
    """
    count = images or (kernel.batch_multiple if kernel.backend == "gpu" else _FEW)
    wanted = layers_of(kernel.format) if shapes is None else [(_in_words(shape), shape) for shape in shapes]
    todo = [(what, shape, count) for what, shape in wanted]
    if shapes is None:
        # A file that asks for whole thousands may end the process over three.
        few = count if kernel.backend == "gpu" and kernel.batch_multiple > 1 else _FEW
        todo += [("another size", shape, few) for shape in OTHER_SHAPES]
    tried: List[Tried] = []
    for what, shape, size in todo:
        if not _takes(kernel, shape):
            continue
        tried.append(try_shape(kernel, what, shape, size, seed, device))
        if tried[-1].failure and not requirements.device_usable(kernel.backend):
            break  # the rest would fail for that reason
    return Checked(kernel, tuple(tried), _together(tried))


def try_shape(kernel: LoadedKernel, what: str, shape: Shape, images: int, seed: int = 0, device: int = 0) -> Tried:
    """One call on random pixels and weights, with its verdict."""
    channels, size, filters, side = shape
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (images, channels, size, size)).astype(np.float32)
    weight = rng.standard_normal((filters, channels, side, side)).astype(np.float32)
    full = (images, channels, size, size, filters, side)
    op_times.drain()
    bindings.load().fops_examine(1)
    try:
        output = kernels.convolve(x.copy(), weight.copy(), kernel.name, kernel.backend, device, node=0)
    except FashionInferError as error:
        return Tried(what, full, None, str(error), 0.0, 0.0, ())
    finally:
        bindings.load().fops_examine(0)
    time = op_times.drain()[-1]
    return Tried(
        what, full, _diagnosed(output, x, weight), "", time.seconds, time.layer_seconds, plugin.said(time.findings)
    )


def _diagnosed(output: np.ndarray, x: np.ndarray, weight: np.ndarray) -> Diagnosis:
    """The diagnosis; of many images that of some, unless something is wrong: all of 2,000 take seconds."""
    if len(x) > 4 * _SOME:
        picked = np.unique(np.r_[:_SOME, np.linspace(0, len(x) - 1, _SOME).astype(int), len(x) - _SOME : len(x)])
        found = diagnose(output[picked], x[picked], weight)
        if found.right and not np.isnan(output.max()):
            return found
    return diagnose(output, x, weight, _wanted(x, weight))


def _takes(kernel: LoadedKernel, shape: Shape) -> bool:
    """Whether a kernel takes a layer at all: LeetGPU's files have one channel."""
    channels, size, filters, side = shape
    try:
        kernels.chosen_kernel((1, channels, size, size), (filters, channels, side, side), kernel.backend, kernel.name)
    except UsageError:
        return False
    return True


def _in_words(shape: Shape) -> str:
    channels, size, filters, side = shape
    return f"{channels} x {size} x {size} with {filters} filters of {side} x {side}"


def _wanted(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The reference: float64 for few images; beyond that our own CPU kernel, which is tested against it."""
    from . import reference

    if len(x) <= 32:
        return reference.convolve(x, weight)
    return kernels.convolve(x, weight, "shifted", "cpu")


def _together(tried: Sequence[Tried]) -> str:
    """What several shapes show that one does not."""
    layers = [one for one in tried if one.what != "another size"]
    right, wrong = [one for one in layers if one.right], [one for one in layers if not one.right]
    if right and wrong and not any(one.diagnosis and one.diagnosis.reason for one in wrong):
        return f"right for {right[0].what} and not for {wrong[0].what}: sizes fixed at compile time"
    if layers and not wrong and not all(one.right for one in tried):
        return "right for the course's layers and not for every size: made for these layers"
    return ""
