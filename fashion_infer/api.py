"""The package's functions for Python programs and notebooks."""

import inspect
import json
import os
import textwrap
import warnings
from dataclasses import fields
from inspect import Parameter
from os import PathLike
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

from . import pipeline
from .bench import documents, user_kernels, verdicts
from .bench.conv import Convolutions
from .bench.records import BenchResult
from .bench.verdicts import Comparison
from .explain.explanation import Explanation, explain
from .judging import judge
from .judging.verdict import Verdict
from .kernel_files import formats
from .present import explanation, kernel, run
from .present.bench import pages
from .present.render import documents as rendered
from .request import Request
from .result import Result

_EITHER = Parameter.POSITIONAL_OR_KEYWORD

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    Options = ParamSpec("Options")
    Returned = TypeVar("Returned")


def _with_options_of(
    request: "Callable[Options, Request]",
) -> "Callable[[Callable[..., Returned]], Callable[Options, Returned]]":
    """Return a decorator that sets a function's signature, and the parameters in its docstring, to a request's fields.

    Type checkers and editors take the signature from the request's constructor.
    """

    def decorate(function):
        given = fields(request)
        parameters = [Parameter(f.name, _EITHER, default=f.default, annotation=f.type) for f in given]
        function.__signature__ = inspect.signature(function).replace(parameters=parameters)
        function.__doc__ = function.__doc__.format(parameters="\n".join(map(_documented, given)).lstrip())
        return function

    return decorate


def _documented(field) -> str:
    """Return the lines that document a request's field as a parameter in a docstring."""
    kinds = [kind.__name__ for kind in getattr(field.type, "__args__", [field.type]) if kind is not type(None)]
    kind = f"{{{', '.join(map(repr, field.metadata['choices']))}}}" if field.metadata["choices"] else " or ".join(kinds)
    default = "optional" if field.default is None else f"default {field.default!r}"
    text = textwrap.fill(field.metadata["help"], 116, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return f"    {field.name} : {kind}, {default}\n{text}"


class NotebookResult(Result):
    """A result that a notebook displays the way `run` prints it."""

    def _repr_html_(self) -> str:
        return rendered.fragment(run.parts(self))


@_with_options_of(Request)
def infer(*arguments: Any, **options: Any) -> NotebookResult:
    """Load test images and a model, run the network, and compare its predictions with the labels.

    Several threads may call this function: the calls run one after the other, and each returns its own result. A fork
    waits until no other thread is in a call, so that the child process may call it, too. A kernel file runs in this
    process: if it crashes, the process crashes. (The command line runs kernel files in a separate process.)

    Parameters
    ----------
    {parameters}

    Returns
    -------
    Result
        Has correctness, op_times, predictions, scores, and more.

    Raises
    ------
    fashion_infer.errors.FashionInferError
        One of its subclasses, for any option, file or device that cannot be used.

    Examples
    --------
    >>> from fashion_infer import infer
    >>> infer(model="ece408-high", n=100, backend="cpu").correctness  # doctest: +SKIP
    """
    result = NotebookResult(*pipeline.run(Request(*arguments, **options)))
    if result.submission is not None and not result.submission.right:
        warnings.warn(result.submission.sentence, stacklevel=2)
    return result


class NotebookCheck(Verdict):
    """A verdict that a notebook displays the way `kernel check` prints it."""

    def _repr_html_(self) -> str:
        return rendered.fragment(kernel.check(self))


def check(
    path: "Union[str, PathLike[str]]",
    kernel_format: Optional[str] = None,
    edition: Optional[str] = None,
    backend: Optional[str] = None,
    device: int = 0,
) -> NotebookCheck:
    """Check a kernel file, as `fashion-infer kernel check` does. Each shape runs in a separate process.

    Parameters
    ----------
    path : str or path-like
        The kernel file.
    kernel_format : str, optional
        Format of the file. By default, it is recognised from the file.
    edition : str, optional
        Edition whose layers the file must compute correctly. By default, the file is correct if it computes all layers
        of at least one edition of its format.
    backend : {'cpu', 'gpu'}, optional
        Where to run a file that supports both. By default, the backend that the file is written for.
    device : int, default 0
        Index of the GPU.

    Returns
    -------
    Verdict
        Has `right` (whether the file is correct), `sentence`, `precision` (the class of its arithmetic), and `shapes`
        (for each shape the result and, if it is incorrect, the code of the reason).

    Raises
    ------
    UsageError
        When the file has no known format.
    DeviceError
        When the file does not build, or needs a GPU and there is none.
    """
    return NotebookCheck(*judge.check(formats.recognise(path, kernel_format, backend), edition, device=device))


class NotebookExplanation(Explanation):
    """An explanation that a notebook displays the way `kernel explain` prints it."""

    def __repr__(self) -> str:
        """The verdict in one sentence, and the findings' codes."""
        return f"<Explanation: {self.verdict.sentence}; {', '.join(one.code for one in self.findings) or 'no finding'}>"

    def _repr_html_(self) -> str:
        return rendered.fragment(explanation.page(self))


def explain_kernel(
    path: "Union[str, PathLike[str]]",
    kernel_format: Optional[str] = None,
    edition: Optional[str] = None,
    layer: Optional[int] = None,
    backend: Optional[str] = None,
    device: int = 0,
    sanitize: bool = False,
    asm: bool = False,
    profiler: bool = True,
) -> NotebookExplanation:
    """Find the lines that make a kernel file incorrect or slow, as `fashion-infer kernel explain` does.

    Parameters
    ----------
    path : str or path-like
        The kernel file.
    kernel_format : str, optional
        Format of the file, if it matches several.
    edition : str, optional
        Edition whose layer is examined. By default, the first edition for which the file is correct.
    layer : int, optional
        Number of the layer to examine, from 1. By default, the edition's last layer.
    backend : {'cpu', 'gpu'}, optional
        Where to run a file that supports both. By default, the backend that the file is written for.
    device : int, default 0
        Index of the GPU.
    sanitize : bool, default False
        Whether to run the sanitizers even if the file is correct.
    asm : bool, default False
        Whether to list the instructions of the hot loop.
    profiler : bool, default True
        Whether ncu may be used.

    Returns
    -------
    Explanation
        Has the `verdict`, the `findings` (each with code, file, line, share of the time, remedy and step),
        and the tools that are not installed (`missing`).

    Raises
    ------
    UsageError
        When the file has no known format, or the edition does not have the layer.
    DeviceError
        When the file does not build, or needs a GPU and there is none.
    """
    file = formats.recognise(path, kernel_format, backend)
    return NotebookExplanation(*explain(file, edition, layer, device, sanitize, asm, profiler))


class NotebookBench(BenchResult):
    """A benchmark that a notebook displays the way `bench conv` prints it."""

    def _repr_html_(self) -> str:
        return rendered.fragment([part for case in self.cases for part in pages.done(case)] + pages.closing(self))


class _NotebookConvolutions(Convolutions):
    result_type = NotebookBench


def bench_conv(
    *kernels: "Union[str, PathLike[str]]",
    edition: str = "fa2017",
    backend: str = "auto",
    device: int = 0,
    against: Optional[str] = None,
    batch: Optional[int] = None,
    repeat: Optional[int] = None,
    kernel_format: Optional[str] = None,
) -> NotebookBench:
    """Check convolution kernels against float64 and time them, as `fashion-infer bench conv` does.

    Kernel files run in this process: if one crashes, the process crashes.

    Parameters
    ----------
    *kernels : str or path-like
        Names of kernels, and paths of kernel files such as ``"./conv.cpp"``. By default, all kernels of the library.
    edition : str, default 'fa2017'
        Edition whose convolutions are timed.
    backend : {'auto', 'cpu', 'gpu'}, default 'auto'
        Where the kernels run; "auto" takes the GPU if there is one, or a kernel file's own backend.
    device : int, default 0
        Index of the GPU.
    against : str, optional
        Names of the libraries to compare with, separated by commas, or ``"none"``. By default, all that are installed.
    batch : int, optional
        Number of images per call. By default, 10,000 on a GPU and 1,000 on a CPU.
    repeat : int, optional
        Number of timed runs. By default, 20 on a GPU and 12 on a CPU.
    kernel_format : str, optional
        Format of the kernel files. By default, it is recognised from each file.

    Returns
    -------
    BenchResult
        Has `cases`, one per convolution, with a row per kernel and times in milliseconds. An incorrect kernel is not
        timed, and is named in `wrong`.

    Raises
    ------
    UsageError
        For an unknown edition, kernel or peer, and for numbers below 1.
    DeviceError
        When a file does not build, or needs a GPU and there is none.
    """
    batches = () if batch is None else (batch,)
    request = user_kernels.requested(
        [os.fspath(kernel) for kernel in kernels],
        kernel_format,
        backend,
        device,
        editions=(edition,),
        against=against,
        batches=batches,
        repeat=repeat,
    )
    found: NotebookBench = _NotebookConvolutions(request).measure()
    return found


class NotebookComparison(Comparison):
    """A comparison that a notebook displays the way `compare` prints it."""

    def _repr_html_(self) -> str:
        return rendered.fragment(pages.comparison(self))


Measured = Union[Result, BenchResult, str, "PathLike[str]"]


def compare(first: Measured, second: Measured) -> NotebookComparison:
    """Compare two runs or two benchmarks, as `fashion-infer compare` does.

    Parameters
    ----------
    first, second : Result, BenchResult, str or path-like
        Results of `infer` or `bench_conv`, or paths of files that `run --json` or `bench --json` wrote. The second is
        judged against the first.

    Returns
    -------
    Comparison
        Has `lines` and `facts`. A line holds one time from both measurements, in milliseconds, and a verdict. A fact is
        a value that must not differ between the measurements, such as the correctness.

    Raises
    ------
    UsageError
        When the measurements differ in kind or in number of images, or have nothing in common.
    DataError
        When a file is damaged or was not written by this package.
    """
    return NotebookComparison(*verdicts.compare_files(_measured("the first", first), _measured("the second", second)))


def _measured(name: str, given: Measured) -> documents.MeasuredFile:
    if isinstance(given, (Result, BenchResult)):
        return documents.parse(name, json.loads(json.dumps(given.as_dict())))
    return documents.read(os.fspath(given))
