"""`fashion-infer predict`."""

import click

from . import options


@click.command("predict")
@click.argument("pictures", nargs=-1, required=True, metavar="IMAGE...")
@options.takes_request(
    *options.MODEL,
    *options.DEVICE,
    click.option("--invert/--no-invert", default=None, help="Swap light and dark [default: when the border is light]."),
    click.option("--show", metavar="FILE.png", help="Draw what the network saw and what it said."),
)
def command(request, pictures, invert, show):
    """Classify pictures (PNG, JPEG, any size): class and probability."""
    from .. import prediction
    from ..present import output, plots

    plots.check_path(show)
    seen = prediction.predict(pictures, request, invert)
    table = output.table("picture", "class", ">probability", "next", ">probability")
    for picture, scores in zip(pictures, seen.scores):
        best = scores.argsort()[::-1][:2]
        table.add_row(picture, *(cell for i in best for cell in (seen.class_names[i], f"{scores[i]:.3f}")))
    output.show(table)
    if show:
        plots.sheet(show, seen.images, seen.scores.argmax(axis=1), seen.class_names, "predictions")
