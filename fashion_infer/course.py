"""The programs of the course, as presets: what each ran, and with which arguments."""

from typing import Dict, NamedTuple, Optional

from .checkpoints import zoo
from .errors import UsageError


class Program(NamedTuple):
    """A milestone's program. `arguments` says whether it took a model and a dataset size."""

    summary: str
    operator: str  # "builtin" or "custom"
    backend: str  # "cpu" or "gpu"
    arguments: bool


PROGRAMS: Dict[str, Program] = {
    "m1.1": Program("baseline, MXNet's own convolution on the CPU", "builtin", "cpu", False),
    "m1.2": Program("baseline, MXNet's own convolution on the GPU", "builtin", "gpu", False),
    "m2.1": Program("custom operator on the CPU", "custom", "cpu", True),
    "m3.1": Program("custom operator on the GPU", "custom", "gpu", True),
    "m4.1": Program("custom operator on the GPU, optimised", "custom", "gpu", True),
    "final": Program("custom operator on the GPU, as submitted", "custom", "gpu", True),
}


class Request(NamedTuple):
    """What a program asks of the pipeline."""

    model: str  # its short name, which the program printed
    edition: str
    operator: str
    backend: str
    n: int


def request(program: str, edition: str, model: Optional[str] = None, n: Optional[int] = None) -> Request:
    """Turn a program's name and its positional arguments into a request.

    Of sp2018 only the baseline is shipped: the programs of the custom operator run that one's weights.

    Raises
    ------
    UsageError
        For an unknown program, or arguments that it did not take.
    """
    if program not in PROGRAMS:
        raise UsageError(f"unknown program '{program}'; the course had {', '.join(PROGRAMS)}")
    preset = PROGRAMS[program]
    if not preset.arguments:
        if model is not None or n is not None:
            raise UsageError(f"{program} takes no arguments: it runs the baseline on all 10000 images")
        chosen = zoo.get("baseline", edition)
    else:
        chosen = zoo.get(model, edition) if model else zoo.default(edition)
    return Request(chosen.short_name, edition, preset.operator, preset.backend, 10000 if n is None else n)
