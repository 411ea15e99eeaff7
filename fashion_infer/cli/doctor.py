"""The command `fashion-infer doctor`."""

import click

from ..errors import CheckFailed
from ..present.render import terminal
from . import options
from .groups import ExampleCommand


@click.command("doctor", cls=ExampleCommand, examples=("doctor", "doctor > installation.txt"))
@options.takes(options.as_json)
def command(as_json):
    """Check Python, NumPy, MXNet, the operator library, devices, dataset and models, and say how to solve problems."""
    from .. import doctor
    from ..present import environment
    from ..present.content import Text

    findings = [*doctor.examine(), _sandbox()]
    broken = [f.what for f in findings if f.ok is False]
    verdict = f"needs attention: {', '.join(broken)}" if broken else "everything that `run` needs is installed"
    if as_json:
        terminal.show_json({"verdict": verdict, "ok": not broken, "parts": [part._asdict() for part in findings]})
    else:
        terminal.show([Text(verdict), environment.findings(findings)])
    if broken:
        raise CheckFailed(verdict)


def _sandbox():
    from ..doctor import InstalledPart
    from ..grading import sandbox
    from ..system import installation

    layers = sandbox.available()
    advice = "" if layers.isolated else f"install the system's package bubblewrap, or {installation.extra('grade')}"
    return InstalledPart(True if layers.isolated else None, "sandbox for `grade`", layers.words, advice)
