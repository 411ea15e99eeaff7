"""What a run is asked to do: every option in one object, checked as a whole before anything is loaded."""

import operator
import os
from dataclasses import dataclass, replace
from typing import Any, Optional

import numpy as np

from .checkpoints import editions, zoo
from .data import dataset, resize
from .devices import ALL, BACKENDS, Device
from .errors import UsageError
from .graph.symbol import OPERATORS
from .kernel_files import paths
from .library.fused import check_precision

MODES = ("fused", "operator")
WEIGHTS = ("shipped", "original")
MAX_THREADS = 1024
_PATHS = ("checkpoint", "data_dir", "kernel", "images", "labels")
_NUMBERS = ("n", "epoch", "input_size", "batch_size", "threads", "repeat")
_FLAGS = ("trust_symbol",)


@dataclass(frozen=True)
class Request:
    """The options of a run."""

    model: Optional[str] = None  # of `zoo`; None for the edition's default
    n: Optional[int] = None  # test images, 1 to 10,000, or as many as a dataset of one's own has; None for all
    backend: str = "auto"  # "auto", "cpu" or "gpu"
    checkpoint: Optional[str] = None  # in place of a model: FILE.h5, PREFIX of MXNet's pair, or weights-86.bin
    epoch: int = 1  # NNNN of PREFIX-NNNN.params
    operator: Optional[str] = None  # "custom" or "builtin" for all convolutions; None as the model has them
    edition: Optional[str] = None  # models then go by the short names of the time
    weights: str = "shipped"  # or "original": the course's own, which must have been fetched
    input_size: Optional[int] = None  # pixels a side; None for the edition's, or what fits the network
    data_dir: Optional[str] = None  # folder of the dataset
    data: Optional[str] = None  # "fashion-mnist", "synthetic", "own", or None for the first of the two that there is
    device: Device = 0  # index of the GPU; "all" splits the images between all of them
    kernel: str = "auto"  # of our operator: a name, or the path of a kernel file
    mode: Optional[str] = None  # "fused" or "operator"; None for what `mode_or_default` says
    precision: str = "float32"  # in fused mode on a GPU also "tf32" and "fp16"
    batch_size: Optional[int] = None  # images a slice
    threads: Optional[int] = None  # of the CPU; None for the cores that this process may use
    repeat: int = 1  # passes over the images
    kernel_format: Optional[str] = None  # of the kernel's file, to insist on one
    images: Optional[str] = None  # of a dataset of one's own, in place of a folder: the two files, see `data.own`
    labels: Optional[str] = None
    trust_symbol: bool = False  # whether a checkpoint's network may have any of MXNet's operators

    def __post_init__(self):
        for name in _PATHS:
            value = getattr(self, name)
            if isinstance(value, (bytes, os.PathLike)):
                object.__setattr__(self, name, os.fsdecode(value))

    @property
    def mode_or_default(self) -> str:
        """The mode; when none was named the fused one, or the operator one when a kernel or an operator was named: the
        fused mode has kernels of its own, and runs both operators alike."""
        named = self.kernel != "auto" or self.operator is not None
        return self.mode or ("operator" if named else "fused")

    @property
    def source(self) -> Optional[str]:
        """The data that was asked for, `data` or what the files mean; UsageError where they exclude each other."""
        return dataset.source_of(self.data, self.data_dir, self.images, self.labels)

    def but(self, **changes: Any) -> "Request":
        """The same request with other values of some options."""
        return replace(self, **changes)

    def check(self) -> None:
        """Check all options.

        What only the machine can tell (whether there is a GPU, a file, a kernel of that name) is not checked here.

        Raises
        ------
        UsageError
            For a value out of range, an unknown name, or options that exclude each other.
        """
        self._check_kinds()
        _check_known("data", self.data, (None, dataset.REAL, dataset.SYNTHETIC, dataset.OWN))
        if self.source != dataset.OWN:  # which has a size of its own
            dataset.check_n(self.n)
        _check_known("backend", self.backend, BACKENDS)
        _check_known("operator", self.operator, (None, *OPERATORS))
        _check_known("weights", self.weights, WEIGHTS)
        self._check_model()
        if self.device != ALL:
            _check_number("device", self.device, f"a GPU's index, or '{ALL}'")
        if self.device == ALL and paths.is_path(self.kernel):
            raise UsageError("a kernel file runs on one GPU: leave --device all out, or name the GPU by its index")
        check_mode(self.mode_or_default, self.precision, self.backend, self.kernel)
        check_batch_size(self.batch_size)
        self._check_format()
        if self.repeat < 1:
            raise UsageError(f"repeat must be at least 1, not {self.repeat}")
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            raise UsageError(f"threads must be 1 to {MAX_THREADS}, not {self.threads}")
        if self.input_size is not None:
            resize.check_size(self.input_size)

    def _check_format(self) -> None:
        if self.kernel_format is not None:
            from .kernel_files import formats, paths

            formats.insisted([self.kernel] if paths.is_path(self.kernel) else [], self.kernel_format)

    def _check_kinds(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value is None or name == "device":  # where None has no meaning, what checks the value refuses it
                continue
            if name in _NUMBERS:
                _check_number(name, value)
            elif name in _FLAGS:
                _check_flag(name, value)
            else:
                _check_text(name, value)

    def _check_model(self) -> None:
        if self.model and self.checkpoint:
            raise UsageError("give either a model or a checkpoint, not both")
        if self.edition:
            editions.get(self.edition)
        if not self.checkpoint:
            zoo.chosen(self.model, self.edition)


def _check_number(what: str, value: Any, wanted: str = "a whole number") -> None:
    try:
        operator.index(value)  # NumPy's whole numbers too
    except TypeError:
        raise UsageError(f"{what} must be {wanted}, not {value!r}") from None


def _check_flag(what: str, value: Any) -> None:
    if not isinstance(value, (bool, np.bool_)):
        raise UsageError(f"{what} must be True or False, not {value!r}")


def _check_text(what: str, value: Any) -> None:
    if not isinstance(value, str):
        raise UsageError(f"{what} must be text, not {value!r}")
    if not value or "\0" in value:
        raise UsageError(f"{what} is empty" if not value else f"{what} has a zero byte in it")


def _check_known(what: str, value: Optional[str], known) -> None:
    if value not in known:
        raise UsageError(f"unknown {what} '{value}'; known: {', '.join(name for name in known if name)}")


def check_mode(mode: str, precision: str, backend: str, kernel: str) -> None:
    """Raise UsageError for an unknown mode or precision, or where the mode, the backend and they exclude each other."""
    _check_known("mode", mode, MODES)
    check_precision(precision)
    if precision != "float32" and (mode != "fused" or backend == "cpu"):
        raise UsageError(f"precision {precision} is there in the fused mode on a GPU only")
    if kernel != "auto" and mode == "fused":
        raise UsageError("the fused mode has kernels of its own: leave --kernel out, or add --mode operator")


def check_batch_size(batch_size: Optional[int]) -> None:
    """Raise UsageError unless the batch size is None or positive."""
    if batch_size is not None and batch_size < 1:
        raise UsageError(f"batch size must be at least 1, not {batch_size}")
