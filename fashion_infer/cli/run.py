"""The command `fashion-infer run`."""

import click

from ..errors import DataError
from ..present.render import terminal
from . import options, scaling
from .groups import ExampleCommand


@click.command(
    "run",
    cls=ExampleCommand,
    examples=(
        "run",
        "run --model ece408-low --n 2000",
        "kernel new --format c-cpu > conv.cpp",
        "run --edition fa2020 --backend cpu --n 1000 --kernel ./conv.cpp",
    ),
)
@options.takes_request(
    *options.RUN,
    *options.BLOCKS,
    options.as_json,
    click.option("--confusion", metavar="FILE.svg", help=f"Draw the confusion matrix, in percent, {options.PICTURE}."),
    click.option("--mistakes", metavar="FILE.svg", help=f"Draw the misclassified images, {options.PICTURE}."),
)
def command(request, as_json, confusion, mistakes):
    """Classify the first N test images and print correctness and Op Time.

    With --data synthetic and --ray or --out, N has no upper limit.
    """
    if request.in_blocks:
        scaling.refuse(confusion=confusion, mistakes=mistakes)
        return scaling.run(request, as_json)
    from .. import pipeline
    from ..present import files
    from ..present import run as present
    from ..present.charts import images as pictures
    from . import running

    files.check(pictures=[confusion, mistakes], error=DataError)
    result = pipeline.run(request) if as_json else pipeline.run(request, announce=running.announced)
    running.notices(request, result)
    if as_json:
        terminal.show_json(result.as_dict())
    else:
        terminal.show(present.parts(result))
    running.check_submission(request, result)
    if confusion:
        pictures.draw_confusion(confusion, result)
    if mistakes:
        pictures.draw_mistakes(mistakes, result)
