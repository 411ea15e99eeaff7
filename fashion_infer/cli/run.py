"""`fashion-infer run`."""

import json

import click

from . import options


@click.command("run")
@options.takes_request(
    *options.RUN,
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead."),
    click.option("--confusion", metavar="FILE.png", help="Draw the confusion matrix."),
    click.option("--mistakes", metavar="FILE.png", help="Draw the misclassified images."),
)
def command(request, as_json, confusion, mistakes):
    """Classify the first N test images and print correctness and Op Time."""
    from .. import pipeline
    from ..present import output, plots
    from . import running

    plots.check_path(confusion)
    plots.check_path(mistakes)
    result = pipeline.run(request) if as_json else pipeline.run(request, announce=running.announced)
    running.notices(request, result)
    if as_json:
        click.echo(json.dumps(result.as_dict(), indent=2))
    else:
        output.run_report(result)
    title = f"{result.model}, correctness {result.correctness} on {result.n} images"
    if confusion:
        plots.confusion(confusion, result.labels, result.predictions, result.class_names, title)
    if mistakes:
        wrong = result.predictions != result.labels
        chosen = result.images[wrong], result.predictions[wrong]
        plots.sheet(mistakes, *chosen, result.class_names, f"mistakes of {title}", result.labels[wrong])
