"""`run` and `predict` with --ray or --out, once their options are checked."""

import contextlib
import functools
import json

import click

from ..errors import UsageError
from ..present import scale as present
from ..present.render import terminal
from . import scaling
from .network import running


def run(request, many, as_json):
    """Classify n labelled images: of the built-in set any number."""
    from ..data import dataset
    from ..inference import model as models
    from ..scale import sources

    _check(request, many)
    if many.n is not None and many.n < 1:
        raise UsageError(f"n must be at least 1, not {many.n}")
    held, data = None, request.source
    if data != dataset.SYNTHETIC:
        if data != dataset.OWN:
            _check_n(many.n)
        with _announced("fashion-mnist data", as_json):
            images = dataset.load(many.n, request.data_dir, request.data, request.images, request.labels)
        held, data = (images.images, images.labels), images.source
    of = sources.drawn(many.n or dataset.TEST_SIZE) if held is None else sources.held(held[0])
    with _announced("model", as_json):
        model = models.load(request)
    outcome = _done(request, many, model, [of], held=held)
    if as_json:
        return click.echo(json.dumps(_as_dict(outcome, model, data), indent=2))
    terminal.show(present.run(outcome, model.label, data))
    _say_where(outcome, many)


def predict(request, many, names, invert):
    """Classify the images of files and folders."""
    from ..inference import model as models
    from ..scale import sources

    if many.out is None:
        raise UsageError("--ray needs --out DIR here: the predictions go there")
    _check(request, many)
    of = sources.of(names)
    outcome = _done(request, many, models.load(request), of, invert=invert)
    terminal.show(present.predict(outcome))
    _say_where(outcome, many)


def _check_n(n):
    from ..data import dataset

    try:
        dataset.check_n(n)
    except UsageError as error:
        raise UsageError(f"{error}; of --data synthetic there is any number") from None


def _check(request, many):
    """Raise UsageError for options of a run that many images leave no place for."""
    if request.mode_or_default != "fused":
        raise UsageError("--ray and --out run the fused mode: leave --kernel, --op and --mode operator out")
    if request.precision != "float32":
        raise UsageError(f"--ray and --out run in float32: leave --precision {request.precision} out")
    if request.repeat != 1:
        raise UsageError("--ray and --out run every image once: leave --repeat out")
    if request.batch_size is not None:
        raise UsageError("--ray and --out take images in blocks: --block-size in place of --batch-size")
    if many.ray is not None and request.device not in (0, "all"):
        raise UsageError("Ray hands out the GPUs: leave --device out")
    if many.ray is None and request.device == "all":
        raise UsageError("--out without --ray runs on one GPU: with --ray auto on all of this machine's")


def _placed(request, many):
    """The request with a backend that is "cpu" or "gpu", where "auto" is what there is."""
    if request.backend != "auto":
        return request
    if many.ray is None:
        from .. import devices

        return request.but(backend=devices.choose("auto", request.device, "fused").backend)
    from ..scale import nodes

    return request.but(backend="gpu" if nodes.shares("gpu", 1) else "cpu")


def _done(request, many, model, of, **options):
    from ..scale import job as jobs
    from ..scale import places
    from ..scale.classify import classify

    out = None if many.out is None else places.absolute(many.out)
    plan = functools.partial(jobs.plan, model=model, of=of, out=out, scores=many.scores, **options)
    plan(request.but(backend="cpu"), block_size=many.block_size)  # what is wrong with it shows before Ray starts
    with _connected(many):
        job = plan(_placed(request, many), block_size=many.block_size)
        with scaling.bar(job.blocks.images) as progress:
            return classify(job, many.ray, progress)


def _connected(many):
    """Ray, for a `with` block; nothing where none was asked for."""
    if many.ray is None:
        return contextlib.nullcontext()
    from ..scale import nodes

    return nodes.connected(many.ray)


def _announced(what, quiet):
    return contextlib.nullcontext() if quiet else running.announced(what)


def _say_where(outcome, many):
    if many.out is not None:
        terminal.show(present.kept(outcome, many.out))


def _as_dict(outcome, model, data):
    facts = {"model": model.label, "data_source": data, "n": outcome.images, "correctness": outcome.correctness}
    nodes = [{**node._asdict(), "images_per_second": node.rate} for node in outcome.nodes]
    return {
        **facts,
        "seconds": outcome.seconds,
        "blocks": outcome.blocks,
        "blocks_before": outcome.before,
        "nodes": nodes,
    }
