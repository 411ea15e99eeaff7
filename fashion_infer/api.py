"""The functions of the package for Python programs and notebooks."""

import os
from typing import Any, Dict, Optional, Union

from . import devices, pipeline
from .request import Request
from .result import Result

PathOrText = Union[str, "os.PathLike[str]"]


class NotebookResult(Result):
    """A result that a notebook shows as `run` prints it."""

    def _repr_html_(self) -> str:
        from .present import run as present
        from .present.render import html

        return html.fragment(present.parts(self))


def infer(
    model: Optional[str] = None,
    n: Optional[int] = None,
    backend: str = "auto",
    checkpoint: Optional[PathOrText] = None,
    epoch: int = 1,
    operator: Optional[str] = None,
    edition: Optional[str] = None,
    weights: str = "shipped",
    input_size: Optional[int] = None,
    data_dir: Optional[PathOrText] = None,
    data: Optional[str] = None,
    device: devices.Device = 0,
    kernel: PathOrText = "auto",
    mode: Optional[str] = None,
    precision: str = "float32",
    batch_size: Optional[int] = None,
    threads: Optional[int] = None,
    repeat: int = 1,
    kernel_format: Optional[str] = None,
    images: Optional[PathOrText] = None,
    labels: Optional[PathOrText] = None,
    trust_symbol: bool = False,
) -> "NotebookResult":
    """Everything in one call: load the first n test images and a model, run it, compare with the labels.

    Threads may call this at once: they run one after the other, and each result is its own. A fork waits until no other
    thread is at it, and the child may then call it too.

    Parameters
    ----------
    model
        Of `fashion-infer models list`; None for ece408-high, or the edition's default.
    n
        Test images, 1 to 10,000; None for all.
    backend, device
        "auto", "cpu" or "gpu", and the GPU's index, or "all" to split the images between all of them.
    checkpoint, epoch, trust_symbol
        In place of a model: FILE.h5, PREFIX of MXNet's pair of files and the NNNN of its weights, or weights-86.bin;
        and whether its network may have any of MXNet's operators.
    operator
        "custom" or "builtin" for all convolutions; None as the model has them.
    edition
        Of the course; models then go by the short names of the time.
    weights
        "shipped", or "original": the course's own, which must have been fetched.
    input_size
        Pixels a side; None for the edition's, or what fits the network.
    data, data_dir, images, labels
        "fashion-mnist", "synthetic", "own", or None for the first of the two that there is; its folder; the two files
        of a dataset of one's own.
    kernel, kernel_format
        A kernel's name, or the path of a file, and its format to insist on one. A file runs in this very process: what
        crashes there crashes here (the command line puts it in a process of its own).
    mode, precision
        "fused" or "operator"; in fused mode on a GPU "float32", "tf32" or "fp16".
    batch_size, threads, repeat
        Images a slice, threads of the CPU, passes over the images.

    Returns
    -------
    Result
        With correctness, op_times, predictions, scores, ...

    Raises
    ------
    fashion_infer.errors.FashionInferError
        One of its kinds, with a message that says what to do.

    Examples
    --------
    >>> from fashion_infer import infer
    >>> infer(model="ece408-high", n=100, backend="cpu").correctness  # doctest: +SKIP
    """
    # The parameters are the fields of Request: tests/unit/test_request.py holds the two together.
    asked: Dict[str, Any] = dict(locals())
    return NotebookResult(*pipeline.run(Request(**asked)))
