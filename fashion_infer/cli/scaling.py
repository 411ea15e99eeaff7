"""Implements `run` and `predict` with --ray or --out, which classify images in blocks."""

import contextlib
import functools
import time
from typing import Any, Iterator

from ..errors import UsageError
from ..present.render import terminal
from . import running


def run(request, as_json):
    from .. import pipeline, scale
    from ..present import run as present

    scale.require(request.ray is not None)
    from ..scale.classify import execute

    announce = contextlib.nullcontext if as_json else running.announced
    outcome = pipeline.run_in_blocks(request, functools.partial(execute, request, bar=bar), announce=announce)
    if as_json:
        return terminal.show_json(outcome.as_dict())
    terminal.show(present.in_blocks(outcome))
    _show_folder(outcome, request)


def predict(request, names, invert):
    from .. import pipeline, scale
    from ..present import run as present

    scale.require(request.ray is not None)
    if request.out is None:
        raise UsageError("predict --ray needs --out DIR, a folder for the predictions")
    from ..scale import sources
    from ..scale.classify import execute

    classify = functools.partial(execute, request, files=sources.of(names), invert=invert, bar=bar)
    outcome = pipeline.run_in_blocks(request, classify, load_images=False)
    terminal.show(present.nodes(outcome))
    _show_folder(outcome, request)


def _show_folder(outcome, request):
    from ..present import run as present

    if request.out is not None:
        terminal.show(present.kept(outcome, request.out))


def refuse(**given: Any) -> None:
    """Raise UsageError for options of the command that cannot be used with --ray and --out."""
    named = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if named:
        raise UsageError(f"{' and '.join(named)} cannot be used with --ray or --out, which do not keep the images")


@contextlib.contextmanager
def bar(images: int) -> Iterator[Any]:
    """Show progress on stderr, and yield the function that reports it. Without a terminal, print lines instead."""
    from ..present.render.progress import ProgressBar

    with ProgressBar("images", lines=True, every=2) as shown:
        began, before = time.monotonic(), None

        def advance(done: int, nodes: int) -> None:
            nonlocal before
            # `before` is the number of images that an earlier, interrupted run classified.
            before = done if before is None else before
            rate = (done - before) / max(time.monotonic() - began, 1e-3)
            where = f" on {nodes} node(s)" if nodes else ""
            shown.tick(done / max(images, 1), f"{done:,} of {images:,}, {rate:,.0f}/s{where}")

        yield advance
