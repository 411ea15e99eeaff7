"""`fashion-infer doctor`."""

import click

from ...errors import CheckFailed
from ..groups import Command


@click.command("doctor", cls=Command, examples=("doctor", "doctor > installation.txt"))
def command():
    """Check Python, NumPy, MXNet, the operator library, devices, dataset and models; say what to do."""
    from ... import doctor
    from ...present import environment
    from ...present.render import terminal

    findings = doctor.examine()
    terminal.show([environment.findings(findings)])
    broken = [f.what for f in findings if f.ok is False]
    if broken:
        raise CheckFailed(f"needs attention: {', '.join(broken)}")
