"""The functions of the package for Python programs and notebooks."""

import inspect
import textwrap
import warnings
from dataclasses import fields
from inspect import Parameter
from os import PathLike
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

from . import pipeline
from .judging import trials
from .judging.trials import Checked
from .kernel_files import formats
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
