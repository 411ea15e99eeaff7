"""The functions of the package for Python programs and notebooks."""

import inspect
import json
import os
import textwrap
import warnings
from dataclasses import fields
from inspect import Parameter
from os import PathLike
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

from . import devices, pipeline
from .bench import documents, user_kernels, verdicts
from .bench.conv import Convolutions
from .bench.records import BenchResult
from .bench.request import BenchRequest
from .bench.verdicts import Comparison
from .explain.explanation import Explanation, explain
from .judging import trials
from .judging.trials import Checked
from .kernel_files import formats, paths
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
    """A decorator that gives a function the signature and the documented parameters of a request's fields.

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
    """A parameter in a docstring."""
    kinds = [kind.__name__ for kind in getattr(field.type, "__args__", [field.type]) if kind is not type(None)]
    kind = f"{{{', '.join(map(repr, field.metadata['choices']))}}}" if field.metadata["choices"] else " or ".join(kinds)
    default = "optional" if field.default is None else f"default {field.default!r}"
    text = textwrap.fill(field.metadata["help"], 116, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return f"    {field.name} : {kind}, {default}\n{text}"


class NotebookResult(Result):
    """A result that a notebook shows as `run` prints it."""

    def _repr_html_(self) -> str:
        from .present import run as present
        from .present.render import html

        return html.fragment(present.parts(self))


@_with_options_of(Request)
def infer(*arguments: Any, **options: Any) -> NotebookResult:
    """Load test images and a model, run the network, and compare its predictions with the labels.

    Threads may call this at once: they run one after the other, and each gets its own result. A fork waits until no
    other thread is in a call, and the child may then call it too. A kernel file runs in this process: if it crashes,
    the process crashes (the command line runs it in a process of its own).

    Parameters
    ----------
    {parameters}

    Returns
    -------
    Result
        With correctness, op_times, predictions, scores, and more.

    Raises
    ------
    fashion_infer.errors.FashionInferError
        A subclass of it, with a message that says what to do.

    Examples
    --------
    >>> from fashion_infer import infer
    >>> infer(model="ece408-high", n=100, backend="cpu").correctness  # doctest: +SKIP
    """
    result = NotebookResult(*pipeline.run(Request(*arguments, **options)))
    if result.submission is not None and result.submission.wrong:
        warnings.warn(result.submission.wrong, stacklevel=2)
    return result


class NotebookCheck(Checked):
    """A check that a notebook shows as `kernel check` prints it."""

    def __repr__(self) -> str:
        """The verdict in one sentence."""
        return f"<Checked: {self.sentence}>"

    def _repr_html_(self) -> str:
        from .present import kernel as present
        from .present.render import html

        return html.fragment(present.check(self))


def check(
    path: "Union[str, PathLike[str]]",
    kernel_format: Optional[str] = None,
    edition: Optional[str] = None,
    backend: Optional[str] = None,
    device: int = 0,
) -> NotebookCheck:
    """Judge a kernel file, as `fashion-infer kernel check` does, each shape in a process of its own.

    Parameters
    ----------
    path : str or path-like
        The kernel file.
    kernel_format : str, optional
        Its format, for a file that has several.
    edition : str, optional
        The one edition that it must be correct for; else any whole edition of its format will do.
    backend : {'cpu', 'gpu'}, optional
        For a file that has both.
    device : int, default 0
        Index of the GPU.

    Returns
    -------
    Checked
        With right, sentence, and tried: what the calls of each shape showed, with the code of a reason.

    Raises
    ------
    UsageError
        When the file has no known format.
    DeviceError
        When it does not build, or is for a GPU and there is none.
    """
    return NotebookCheck(*trials.check(formats.recognise(path, kernel_format, backend), device=device, edition=edition))


class NotebookExplanation(Explanation):
    """An explanation that a notebook shows as `kernel explain` prints it."""

    def __repr__(self) -> str:
        """The verdict in one sentence, and the findings' codes."""
        return f"<Explanation: {self.checked.sentence}; {', '.join(one.code for one in self.findings) or 'no finding'}>"

    def _repr_html_(self) -> str:
        from .present import explanation as present
        from .present.render import html

        return html.fragment(present.page(self))


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
    """Find the line that makes a kernel file wrong, or what makes it slow, as `fashion-infer kernel explain` does.

    Parameters
    ----------
    path : str or path-like
        The kernel file.
    kernel_format : str, optional
        Its format, for a file that has several.
    edition, layer : str and int, optional
        The edition, and the number of its layer, that are looked at.
    backend : {'cpu', 'gpu'}, optional
        For a file that has both.
    device : int, default 0
        Index of the GPU.
    sanitize : bool, default False
        Run the sanitizers on a correct file, too.
    asm : bool, default False
        List the hot loop's instructions.
    profiler : bool, default True
        Whether ncu may be used.

    Returns
    -------
    Explanation
        With checked (the verdict), findings (code, file, line, share of the time, remedy, step), and missing tools.

    Raises
    ------
    UsageError
        When the file has no known format, or the edition no such layer.
    DeviceError
        When it does not build, or is for a GPU and there is none.
    """
    file = formats.recognise(path, kernel_format, backend)
    return NotebookExplanation(*explain(file, edition, layer, device, sanitize, asm, profiler))


class NotebookBench(BenchResult):
    """A benchmark that a notebook shows as `bench conv` prints it."""

    def _repr_html_(self) -> str:
        from .present.bench import pages
        from .present.render import html

        return html.fragment([part for case in self.cases for part in pages.done(case)] + pages.closing(self))


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
        Names of kernels and paths of kernel files, as ``"./conv.cpp"``; none for all of the library's.
    edition : str, default 'fa2017'
        Whose convolutions are timed.
    backend : {'auto', 'cpu', 'gpu'}, default 'auto'
        Where they run; kernel files say it themselves.
    device : int, default 0
        Index of the GPU.
    against : str, optional
        Peers, with commas between them, or ``"none"``; else all that are installed.
    batch : int, optional
        Images; else 10,000 on a GPU and 1,000 on a CPU.
    repeat : int, optional
        Timed runs; else 20 on a GPU and 12 on a CPU.
    kernel_format : str, optional
        Format of the kernel files, for a file that has several.

    Returns
    -------
    BenchResult
        With cases, whose rows have times in milliseconds; an incorrect kernel is in `wrong`, and is not timed.

    Raises
    ------
    UsageError
        For an unknown edition, kernel or peer, and for numbers below 1.
    DeviceError
        When a file does not build, or is for a GPU and there is none.
    """
    names = [os.fspath(kernel) for kernel in kernels]
    asked = None if backend == "auto" else backend
    files = user_kernels.recognised(paths.among(names), kernel_format, asked)
    where = files[0].backend if files else devices.choose(backend, device).backend
    request = BenchRequest(
        editions=(edition,),
        backend=where,
        device=device,
        against=against,
        batches=() if batch is None else (batch,),
        repeat=repeat,
        kernels=",".join(names) or "all",
        files=files,
        formats=kernel_format,
    )
    found: NotebookBench = _NotebookConvolutions(request).measure()
    return found


class NotebookComparison(Comparison):
    """A comparison that a notebook shows as `compare` prints it."""

    def _repr_html_(self) -> str:
        from .present import comparison
        from .present.render import html

        return html.fragment(comparison.parts(self))


Measured = Union[Result, BenchResult, str, "PathLike[str]"]


def compare(first: Measured, second: Measured) -> NotebookComparison:
    """Compare two runs or two benchmarks, as `fashion-infer compare` does.

    Parameters
    ----------
    first, second : Result, BenchResult, str or path-like
        What `infer` or `bench_conv` gave, or paths of files of `run --json` or `bench --json`; the second is judged
        against the first.

    Returns
    -------
    Comparison
        With lines, each a time in both in milliseconds with its verdict, and facts that must not change.

    Raises
    ------
    UsageError
        When they are of different kinds or numbers of images, or have nothing in common.
    DataError
        When a file is damaged or was not written by this package.
    """
    return NotebookComparison(*verdicts.compare_files(_measured("the first", first), _measured("the second", second)))


def _measured(name: str, given: Measured) -> documents.MeasuredFile:
    if isinstance(given, (Result, BenchResult)):
        return documents.parse(name, json.loads(json.dumps(given.as_dict())))
    return documents.read(os.fspath(given))
