"""Trials of a kernel file: the layers of the course's networks, and sizes that it was not written for."""

import os
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..checkpoints import editions
from ..kernel_files import loading
from ..kernel_files.formats import KernelFile, KernelFormat
from ..kernel_files.loading import LoadedKernel
from ..system.isolation import TIMEOUT
from . import processes, reasons
from .calls import Shape, Tried, runs_threads
from .processes import Tick, TrialJob, TrialShape

OTHER = "another size"
GIVEN = "the given sizes"
# Codes of layers whose outputs are wrong for a reason that they alone do not show.
_UNEXPLAINED = (reasons.INCORRECT, "not_all_written", "not_written", "all_zero")
# In this order: odd sizes, all sizes 1, a kernel as large as the image, more filters than in a tile.
OTHER_SHAPES: Tuple[Shape, ...] = ((3, 13, 5, 3), (1, 1, 1, 1), (2, 6, 3, 6), (5, 37, 67, 4))
_FEW = 3  # images per call by default
_MOST = 32  # limit of images per call of a kernel with threads, for any number of processors


class Checked(NamedTuple):
    """Result of a check."""

    file: KernelFile
    tried: Tuple[Tried, ...]
    edition: Optional[str] = None  # required by the caller
    reason: str = ""  # reason for failure that only a comparison of several shapes shows; "" if none

    @property
    def by_edition(self) -> Dict[str, List[Tried]]:
        """The trials by edition. Trials of requested sizes have the key GIVEN; other sizes are left out."""
        found: Dict[str, List[Tried]] = {}
        for one in self.tried:
            if one.what != OTHER:
                name, layer, _ = one.what.partition(", layer ")
                found.setdefault(name if layer else GIVEN, []).append(one)
        return found

    @property
    def right_for(self) -> Tuple[str, ...]:
        """The editions with all layers correct."""
        return tuple(name for name, tried in self.by_edition.items() if all(one.right for one in tried))

    @property
    def right(self) -> bool:
        """Whether the kernel is correct for all layers of an edition of its format, or of the required edition."""
        return bool(self.right_for)

    @property
    def wrong(self) -> List[Tried]:
        """The incorrect layers."""
        return [one for one in self.tried if one.what != OTHER and not one.right]

    @property
    def precision(self) -> str:
        """The least precise class of the correct layers: "float32" or "tf32 or half"; "wrong" if none is correct."""
        classes = {one.diagnosis.precision for one in self.tried if one.right and one.diagnosis}
        return next((name for name in ("tf32 or half", "float32") if name in classes), "wrong")

    def as_dict(self) -> Dict[str, Any]:
        """Convert the check to a dictionary for JSON."""
        return {
            "file": str(self.file.path),
            "format": self.file.format.name,
            "backend": self.file.backend,
            "verdict": self.sentence,
            "correct": self.right,
            "correct_for": self.right_for,
            "precision": self.precision,
            "layers": [one.as_dict() for one in self.tried],
        }

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        wrong = self.wrong
        layers = [one for one in self.tried if one.what != OTHER]
        if not wrong:
            others = [one for one in self.tried if one.what == OTHER and not one.right]
            where = _listed(self.by_edition) if len(self.by_edition) > 1 else next(iter(self.by_edition), "no shape")
            count = f", {_layers(layers)}" if len(layers) > 1 else ""
            fails = f"; fails for other sizes, as {_size(others[0])}: {others[0].reason}" if others else ""
            precision = "" if self.precision == "float32" else f" in {self.precision} precision"
            return f"{self.file.name} is correct for {where}{count}{precision}{fails}"
        why = f": {self.reason or _main_reason(wrong)}"
        if not self.right:
            return f"{self.file.name} is incorrect on {len(wrong)} of {len(layers)} course layers{why}"
        right = [one for name in self.right_for for one in self.by_edition[name]]
        failed = [name for name in self.by_edition if name not in self.right_for]
        example = wrong[0]
        return (
            f"{self.file.name} is correct for {_listed(self.right_for)}, {_layers(right)}; "
            f"fails for {_listed(failed)}, as {_size(example)} ({example.what}){why}"
        )


def layers_of(format: KernelFormat, edition: Optional[str] = None) -> List[Tuple[str, Shape]]:
    """Return the convolutions of a format's editions, or of one edition, each with its edition's name.

    Raises
    ------
    UsageError
        For an unknown edition.
    """
    names = (edition,) if edition else format.editions or tuple(sorted(editions.EDITIONS))
    return [
        (f"{name}, layer {number}", shape)
        for name in names
        for number, shape in enumerate(editions.convolution_shapes(editions.get(name)), start=1)
    ]


def check(
    file: KernelFile,
    images: Optional[int] = None,
    shapes: Optional[Sequence[Shape]] = None,
    seed: int = 0,
    device: int = 0,
    edition: Optional[str] = None,
    timeout: float = TIMEOUT,
    verbose: bool = False,
    tick: Tick = lambda share, what: None,
) -> Checked:
    """Compare a kernel file's results with the float64 reference, each shape in a separate process.

    Parameters
    ----------
    file
        The recognised file.
    images
        Number of images per call. Default: 1000 for the course's formats on a GPU, and a few for all other files.
    shapes
        Shapes to try. Default: the layers of the editions.
    seed
        Seed of the random images and weights.
    device
        Index of the GPU, for a file that runs on one.
    edition
        Edition whose layers are tried. Default: the editions that used the file's format, or all if none did.
    timeout
        Time limit for all shapes together, in seconds, without the build.
    verbose
        Whether to show the compiler's warnings on stderr.
    tick
        Progress function, as in `processes.try_each`.

    Returns
    -------
    Checked
        The trials of all shapes, with everything that went wrong in a call.

    Raises
    ------
    UsageError, DeviceError
        When the file cannot be built or loaded, or needs a GPU and there is none; for an unknown edition.
    """
    wanted = layers_of(file.format, edition) if shapes is None else [(_in_words(shape), shape) for shape in shapes]
    file, library = loading.built(file, verbose, device=device)
    thousands = file.format.thousands
    count = images or (loading.TRIAL_IMAGES if thousands else _few(file))
    asked = [TrialShape(what, shape, count) for what, shape in wanted]
    if shapes is None and edition is None:
        # A file that needs multiples of a thousand may end the process when called with three images.
        asked += [TrialShape(OTHER, shape, count if thousands else _FEW) for shape in OTHER_SHAPES]
    tried = _try_each(file, library, asked, device, seed, timeout, tick)
    return Checked(file, tuple(tried), edition, _together(tried))


def try_layers(kernel: LoadedKernel, layers: Sequence[Tuple[str, Shape]]) -> List[Tried]:
    """Try the layers of a network, with as few images per call as in a check.

    Parameters
    ----------
    kernel
        A kernel file that this process has loaded.
    layers
        The name and the shape of each layer.
    """
    file = kernel.file
    count = kernel.batch_multiple if kernel.backend == "gpu" else _few(file)
    asked = [TrialShape(name, shape, count) for name, shape in layers]
    return _try_each(file, kernel.library, asked, kernel.device)


def _try_each(
    file: KernelFile,
    library: Optional[Path],
    asked: Sequence[TrialShape],
    device: int,
    seed: int = 0,
    timeout: float = TIMEOUT,
    tick: Tick = lambda share, what: None,
) -> List[Tried]:
    return processes.try_each(
        TrialJob(str(file.path), file.format.name, file.backend, library, tuple(asked), device, seed, timeout), tick
    )


def _few(file: KernelFile) -> int:
    """Return the number of images per call on the CPU: enough for threads to interfere, if the file has threads."""
    return min(_MOST, max(_FEW, 2 * len(os.sched_getaffinity(0)))) if runs_threads(file) else _FEW


def _in_words(shape: Shape) -> str:
    channels, size, filters, side = shape
    return f"{channels} x {size} x {size} with {filters} filters of {side} x {side}"


def _size(one: Tried) -> str:
    _, channels, height, width, filters, side = one.shape
    return f"{filters} filters of {side} x {side} over {channels} x {height} x {width}"


def _layers(tried: Sequence[Tried]) -> str:
    return {1: "its layer", 2: "both layers"}.get(len(tried), f"all {len(tried)} layers")


def _listed(names) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _main_reason(wrong: Sequence[Tried]) -> str:
    """Return the most frequent reason among the incorrect layers."""
    counts = {
        one.code: sum(other.code == one.code for other in wrong) for one in wrong if one.code != reasons.INCORRECT
    }
    if not counts:
        return reasons.sentence(reasons.INCORRECT)
    code = max(counts, key=lambda name: counts[name])
    text = next(one.reason for one in wrong if one.code == code)
    return text if counts[code] == len(wrong) or len(wrong) == 1 else f"{text} (on {counts[code]} of them)"


def _together(tried: Sequence[Tried]) -> str:
    """Return the reason for failure that only a comparison of several shapes shows, or "" if there is none."""
    layers = [one for one in tried if one.what != OTHER]
    right, wrong = [one for one in layers if one.right], [one for one in layers if not one.right]
    if not right or not wrong or any(one.code not in _UNEXPLAINED for one in wrong):
        return ""
    if all(one.channels == 1 for one in right) and all(one.channels > 1 for one in wrong):
        return reasons.sentence("several_channels")
    # Fixed sizes are correct for nothing but the layers of one edition.
    editions_right = {one.what.partition(", layer ")[0] for one in tried if one.right}
    return reasons.sentence("fixed_sizes") if len(editions_right) == 1 else ""
