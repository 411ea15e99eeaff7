"""The course's programs: the operator and the backend that each one used, and its arguments."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

from .checkpoints import editions, minidnn, zoo
from .errors import UsageError
from .request import Request


class Program(NamedTuple):
    summary: str
    operator: str  # "builtin" or "custom"
    backend: str  # "cpu" or "gpu"
    arguments: Tuple[str, ...] = ()  # arguments that it took: "model", the number of images "n", both or neither


_BOTH = ("model", "n")
# Programs of the editions that used MXNet, fa2017 to fa2019.
MXNET: Dict[str, Program] = {
    "m1.1": Program("baseline, MXNet's own convolution on the CPU", "builtin", "cpu"),
    "m1.2": Program("baseline, MXNet's own convolution on the GPU", "builtin", "gpu"),
    "m2.1": Program("custom operator on the CPU", "custom", "cpu", _BOTH),
    "m3.1": Program("custom operator on the GPU", "custom", "gpu", _BOTH),
    "m4.1": Program("custom operator on the GPU, optimised", "custom", "gpu", _BOTH),
    "final": Program("custom operator on the GPU, as submitted", "custom", "gpu", _BOTH),
}
# Programs of the editions that used mini-dnn, fa2020 and later. They had a single model.
MINIDNN: Dict[str, Program] = {
    "m1": Program("custom operator on the CPU", "custom", "cpu", ("n",)),
    "m2": Program("custom operator on the GPU", "custom", "gpu", ("n",)),
    "m3": Program("custom operator on the GPU, optimised", "custom", "gpu", ("n",)),
}
PROGRAMS: Dict[str, Program] = {**MXNET, **MINIDNN}


def request(
    program: str, edition: Optional[str] = None, model: Optional[str] = None, n: Optional[int] = None, **options: Any
) -> Request:
    """Turn a program's name and its positional arguments into a request that runs node by node, as the program did."""
    if program not in PROGRAMS:
        raise UsageError(f"unknown program '{program}'; the course had {', '.join(PROGRAMS)}")
    edition = edition or (minidnn.EDITION if program in MINIDNN else zoo.DEFAULT_EDITION)
    had = MINIDNN if editions.get(edition).name == minidnn.EDITION else MXNET
    if program not in had:
        raise UsageError(f"{edition} had no program '{program}'; it had {', '.join(had)}")
    preset = PROGRAMS[program]
    if preset.arguments == ("n",) and model is not None:
        if n is not None or not model.isdecimal():
            raise UsageError(f"{program} takes one argument: the number of test images")
        n, model = int(model), None
    if not preset.arguments:
        if model is not None or n is not None:
            raise UsageError(f"{program} takes no arguments, because it runs the baseline on all 10000 images")
        chosen = zoo.get("baseline", edition)
    else:
        chosen = zoo.get(model, edition) if model else zoo.default(edition)
    return Request(
        model=chosen.short_name,
        edition=edition,
        n=10000 if n is None else n,
        operator=preset.operator,
        backend=preset.backend,
        mode="operator",
        **options,
    )
