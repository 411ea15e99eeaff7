"""The command `fashion-infer course`."""

import click

from ..present.render import terminal
from . import options
from .groups import ExampleCommand


@click.command(
    "course", cls=ExampleCommand, examples=("course m2.1 ece408-high 10000", ("course m3.1 ece408-low 2000", "a GPU"))
)
@click.argument("program", metavar="PROGRAM")
@click.argument("model", required=False)
@click.argument("n", type=int, required=False)
@options.takes(
    click.option("--edition", metavar="NAME", help="Course semester [default: fa2017, or fa2020 for m1, m2 and m3]."),
    *options.DATA,
)
def command(program, model, n, edition, data_dir, data):
    """Run one of the course's programs with the program's own arguments.

    m1.1 and m1.2 take no arguments. m2.1, m3.1, m4.1 and final take MODEL and N. m1, m2 and m3, the programs of fa2020
    and later, take only N.
    """
    from .. import course, pipeline
    from ..present import run as present
    from . import running

    request = course.request(program, edition, model, n, data_dir=data_dir, data=data)
    result = pipeline.run(request, announce=running.announced)
    running.notices(request, result)
    terminal.show(present.minidnn_parts(result) if program in course.MINIDNN else present.parts(result))
