"""`fashion-infer course`."""

import click

from . import options


@click.command("course")
@click.argument("program", metavar="PROGRAM")
@click.argument("model", required=False)
@click.argument("n", type=int, required=False)
@options.takes(click.option("--edition", default="fa2017", show_default=True, metavar="NAME"), *options.DATA)
def command(program, model, n, edition, data_dir, data):
    """Run one of the course's programs, m1.1 m1.2 m2.1 m3.1 m4.1 final, with its own arguments."""
    from .. import course, pipeline
    from ..present import output
    from . import running

    request = course.request(program, edition, model, n, data_dir=data_dir, data=data)
    result = pipeline.run(request, announce=running.announced)
    running.notices(request, result)
    output.run_report(result)
