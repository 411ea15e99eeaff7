"""The options of a run: fields of one object that is checked as a whole before anything is loaded.

The command line's options, and the signature and docstring of `fashion_infer.infer`, are generated from these fields.
This module imports little, because the command line imports it to print its help.
"""

import math
import numbers
import operator
import os
from dataclasses import dataclass, field, fields, replace
from typing import Any, Optional, Sequence, TypeVar

from .errors import UsageError
from .kernel_files import paths
from .system.paths import PathOrText

MAX_THREADS = 1024
NORMALISATION = ("scale", "mean", "std")
AnyRequest = TypeVar("AnyRequest", bound="Request")


def option(default: Any, help: str, choices: Sequence[str] = (), metavar: str = "", flags: Sequence[str] = ()) -> Any:
    """Declare a field of a request, which is also a command-line option; its `help` documents `infer` too."""
    return field(default=default, metadata={"help": help, "choices": choices, "metavar": metavar, "flags": flags})


@dataclass(frozen=True)
class Request:
    """The options of a run."""

    model: Optional[str] = option(
        None, "Shipped model (see `models list`) [default: the edition's main model].", metavar="NAME"
    )
    n: Optional[int] = option(
        None, "Number of test images; Fashion-MNIST has 10000 [default: all].", flags=("-n", "--n")
    )
    backend: str = option(
        "auto",
        "Where to run; auto takes the GPU if there is one, or a kernel file's own backend.",
        ("auto", "cpu", "gpu"),
    )
    checkpoint: Optional[PathOrText] = option(
        None,
        "Checkpoint to use instead of a shipped model: FILE.h5, PREFIX of an MXNet checkpoint, or weights-86.bin.",
        metavar="PATH",
    )
    epoch: int = option(1, "Epoch of an MXNet checkpoint: the number NNNN in PREFIX-NNNN.params.")
    operator: Optional[str] = option(
        None,
        "Operator of the convolutions: ours (custom) or MXNet's (builtin) [default: the model's].",
        ("custom", "builtin"),
        flags=("--op", "operator"),
    )
    edition: Optional[str] = option(
        None, "Course semester, which also enables its short model names [default: fa2017].", metavar="NAME"
    )
    weights: str = option(
        "shipped",
        "Weights of the model: shipped, or the course's own (original), which `models fetch --original` fetches.",
        ("shipped", "original"),
    )
    input_size: Optional[int] = option(
        None, "Width and height of the network's input in pixels [default: what fits the network]."
    )
    scale: Optional[float] = option(
        None, "Divisor for the checkpoint's pixels of 0 to 255, such as 255 [default: the checkpoint's, or 1]."
    )
    mean: Optional[float] = option(None, "Mean subtracted from the scaled pixels [default: the checkpoint's, or 0].")
    std: Optional[float] = option(
        None, "Divisor for the pixels after the mean is subtracted [default: the checkpoint's, or 1]."
    )
    data_dir: Optional[PathOrText] = option(
        None, "Folder of the dataset [default: for Fashion-MNIST, see `data info`].", metavar="DIR"
    )
    data: Optional[str] = option(
        None,
        "Fashion-MNIST, the built-in synthetic set, drawn from a statistical model of it, or your own dataset "
        "[default: your own if --images is given, else Fashion-MNIST, or synthetic where it is not found].",
        ("fashion-mnist", "synthetic", "own"),
    )
    device: int = option(0, "Index of the GPU.")
    kernel: PathOrText = option(
        "auto",
        "Kernel name (see `doctor`), or path of your kernel file, such as ./new-forward.cu (see `kernel formats`).",
        metavar="NAME",
        flags=("--kernel", "--kernels", "kernel"),
    )
    mode: Optional[str] = option(
        None,
        "How to run the network: as a few fused stages, or node by node with the operator, as the course did "
        "[default: operator if a kernel or an operator is named, else fused].",
        ("fused", "operator"),
    )
    precision: str = option(
        "float32",
        "Precision of the fused mode on a GPU; for tf32 and fp16, the output says how many predictions changed.",
        ("float32", "tf32", "fp16"),
    )
    batch_size: Optional[int] = option(None, "Number of images per batch; a smaller one needs less memory.")
    threads: Optional[int] = option(None, "Number of CPU threads [default: the cores that this process may use].")
    repeat: int = option(1, "Number of passes over the images; times are medians of the passes.")
    kernel_format: Optional[str] = option(
        None,
        "Format of the kernel file (see `kernel formats`) [default: recognised from the file].",
        metavar="NAME",
        flags=("--format", "kernel_format"),
    )
    images: Optional[PathOrText] = option(
        None, "Images of your own dataset: IDX (also .gz), .npy or .npz.", metavar="FILE"
    )
    labels: Optional[PathOrText] = option(
        None, "Labels of your own dataset: IDX (also .gz), .npy or .npz.", metavar="FILE"
    )
    trust_symbol: bool = option(False, "Allow all operators in a checkpoint's network; only for files that you trust.")

    def __post_init__(self):
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, (bytes, os.PathLike)):
                object.__setattr__(self, each.name, os.fsdecode(value))

    @property
    def mode_or_default(self) -> str:
        named = self.kernel != "auto" or self.operator is not None
        return self.mode or ("operator" if named else "fused")

    @property
    def source(self) -> Optional[str]:
        """The requested data source, None if none is given; UsageError if options exclude each other."""
        from .data import dataset

        return dataset.source_of(self.data, self.data_dir, self.images, self.labels)

    @property
    def kernel_file(self) -> Optional[str]:
        return os.fspath(self.kernel) if paths.is_path(os.fspath(self.kernel)) else None

    def but(self: AnyRequest, **changes: Any) -> AnyRequest:
        return replace(self, **changes)

    def check(self) -> None:
        """Check the values of all options; UsageError if one is wrong. `pipeline.check` also checks names."""
        for each in fields(self):
            value = getattr(self, each.name)
            _check_kind(each.name, each.type, value)
            if value is not None and each.metadata["choices"]:
                check_known(each.name, value, each.metadata["choices"])
        self._check_n()
        if self.model and self.checkpoint:
            raise UsageError("give either a model or a checkpoint, not both")
        self._check_normalisation()
        if self.operator == "builtin" and self.kernel != "auto":
            raise UsageError("MXNet's own operator has no kernels to choose from: leave --op builtin or --kernel out")
        check_mode(self.mode_or_default, self.precision, self.backend, self.kernel)
        check_batch_size(self.batch_size)
        if self.repeat < 1:
            raise UsageError(f"repeat must be at least 1, not {self.repeat}")
        if self.threads is not None and not 1 <= self.threads <= MAX_THREADS:
            raise UsageError(f"threads must be 1 to {MAX_THREADS}, not {self.threads}")
        if self.input_size is not None:
            from .data import resize

            resize.check_size(self.input_size)

    def _check_n(self) -> None:
        from .data import dataset

        if self.source != dataset.OWN:  # the size of an own dataset is known only after reading it
            dataset.check_n(self.n)

    def _check_normalisation(self) -> None:
        for name in NORMALISATION:
            if getattr(self, name) is not None:
                if not self.checkpoint:
                    raise UsageError(f"--{name} needs --checkpoint: the shipped models take pixels from 0 to 255")
                check_normalisation(name, getattr(self, name))


def _check_kind(name: str, kind: Any, value: Any) -> None:
    """Raise UsageError unless `value` has the type `kind`, the annotation of the field `name`."""
    if value is None and type(None) in getattr(kind, "__args__", ()):
        return
    elif kind in (int, Optional[int]):
        try:
            operator.index(value)  # accepts NumPy's integers too
        except TypeError:
            raise UsageError(f"{name} must be a whole number, not {value!r}") from None
    elif kind == Optional[float]:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise UsageError(f"{name} must be a number, not {value!r}")
    elif kind is bool:
        import numpy as np

        if not isinstance(value, (bool, np.bool_)):
            raise UsageError(f"{name} must be True or False, not {value!r}")
    elif not isinstance(value, str):
        raise UsageError(f"{name} must be text, not {value!r}")
    elif not value or "\0" in value:
        raise UsageError(f"{name} is empty" if not value else f"{name} contains a zero byte")


def is_normalising(name: str, value: float) -> bool:
    """Return whether float32 pixels can be normalised by the scale, mean or std (which one: `name`) of this value."""
    return math.isfinite(value) and (abs(value) <= 1e30 if name == "mean" else 1e-30 <= value <= 1e30)


def check_normalisation(name: str, value: float) -> None:
    if not is_normalising(name, value):
        raise UsageError(f"{name} must be a {'finite' if name == 'mean' else 'positive'} number, not {value:g}")


def check_known(what: str, value: str, known: Sequence[str]) -> None:
    """Raise UsageError if `value` is not in `known`. `what` names the kind of value in the message."""
    if value not in known:
        raise UsageError(f"unknown {what} '{value}'; known: {', '.join(known)}")


def check_mode(mode: str, precision: str, backend: str, kernel: PathOrText) -> None:
    """Raise UsageError for an unknown mode or precision, or for options that exclude each other."""
    check_known("mode", mode, Request.__dataclass_fields__["mode"].metadata["choices"])
    check_known("precision", precision, Request.__dataclass_fields__["precision"].metadata["choices"])
    if precision != "float32" and (mode != "fused" or backend == "cpu"):
        raise UsageError(f"precision {precision} needs the fused mode on a GPU")
    if kernel != "auto" and mode == "fused":
        raise UsageError("the fused mode has its own kernels: leave --kernel out, or add --mode operator")


def check_batch_size(batch_size: Optional[int]) -> None:
    if batch_size is not None and batch_size < 1:
        raise UsageError(f"batch size must be at least 1, not {batch_size}")


@dataclass(frozen=True)
class BlockRequest(Request):
    """The options of a run that can classify its images in blocks, on a Ray cluster or with a folder of results."""

    ray: Optional[str] = option(
        None,
        "Ray cluster to run on: HOST:PORT of its head node, or auto for the one that runs on this machine.",
        metavar="ADDRESS",
    )
    out: Optional[PathOrText] = option(
        None, "Folder for the predictions, as Parquet files; finished files are not computed again.", metavar="DIR"
    )
    scores: bool = option(False, "Write the scores to --out, too.")
    block_size: Optional[int] = option(
        None, "Number of images per file of --out [default: 50000, fewer for large images]."
    )

    @property
    def in_blocks(self) -> bool:
        return self.ray is not None or self.out is not None

    def check(self) -> None:
        """Check all options, as `Request.check`; in blocks, also refuse the options that blocks do not support."""
        super().check()
        if not self.in_blocks:
            if self.scores or self.block_size is not None:
                raise UsageError("--scores and --block-size are for --out and --ray")
            return
        if self.scores and self.out is None:
            raise UsageError("--scores needs --out DIR to write them to")
        if self.mode_or_default != "fused":
            raise UsageError("--ray and --out use the fused mode: leave out --kernel, --op and --mode operator")
        if self.precision != "float32":
            raise UsageError(f"--ray and --out use float32: leave out --precision {self.precision}")
        if self.repeat != 1:
            raise UsageError("--ray and --out classify each image once: leave out --repeat")
        if self.batch_size is not None:
            raise UsageError("--ray and --out classify images in blocks: use --block-size instead of --batch-size")
        if self.block_size is not None and self.block_size < 1:
            raise UsageError(f"block size must be at least 1, not {self.block_size}")
        if self.ray is not None and self.device != 0:
            raise UsageError("with --ray, Ray assigns the GPUs: leave out --device")

    def _check_n(self) -> None:
        if not self.in_blocks:
            return super()._check_n()
        if self.n is not None and self.n < 1:
            raise UsageError(f"n must be at least 1, not {self.n}")
        if self.source == "synthetic":
            return
        try:
            super()._check_n()
        except UsageError as error:
            raise UsageError(f"{error}; --data synthetic has no limit") from None
