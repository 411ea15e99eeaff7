"""The command `fashion-infer predict`."""

import click

from ..errors import DataError
from ..present.render import terminal
from . import options, scaling
from .groups import ExampleCommand


@click.command(
    "predict",
    cls=ExampleCommand,
    examples=(("predict shoe.png", "a picture"), ("predict --show seen.png shirts/*.jpg", "pictures")),
)
@click.argument("pictures", nargs=-1, required=True, metavar="IMAGE...")
@options.takes_request(
    *options.MODEL,
    *options.DEVICE,
    click.option("--invert/--no-invert", default=None, help="Swap light and dark [default: if the border is light]."),
    click.option(
        "--show",
        metavar="FILE.svg",
        help=f"Draw the network's input images with the predicted classes, {options.PICTURE}.",
    ),
    *options.BLOCKS,
)
def command(request, pictures, invert, show):
    """Classify pictures (PNG, JPEG, any size); print each one's class and probability.

    With --out, IMAGE may also be a folder, or a Parquet, NumPy or IDX file.
    """
    if request.in_blocks:
        scaling.refuse(show=show)
        return scaling.predict(request, pictures, invert)
    from .. import pipeline
    from ..present import files, run
    from ..present.charts import images

    files.check(pictures=[show], inputs=pictures, error=DataError)
    seen = pipeline.predict(pictures, request, invert)
    terminal.show([run.predictions(pictures, seen.scores, seen.class_names)])
    if show:
        images.sheet(show, seen.images, seen.scores.argmax(axis=1), seen.class_names, "predictions")
