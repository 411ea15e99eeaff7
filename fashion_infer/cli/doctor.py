"""`fashion-infer doctor`."""

import click

from ..errors import CheckFailed


@click.command("doctor")
def command():
    """Check Python, NumPy, MXNet, the operator library, devices, dataset and models; say what to do."""
    from .. import doctor
    from ..present import output

    findings = doctor.examine()
    table = output.table("", "what", "found", "what to do")
    for f in findings:
        table.add_row({True: "ok", False: "NO", None: "--"}[f.ok], f.what, f.found, f.advice)
    output.show(table)
    broken = [f.what for f in findings if f.ok is False]
    if broken:
        raise CheckFailed(f"needs attention: {', '.join(broken)}")
