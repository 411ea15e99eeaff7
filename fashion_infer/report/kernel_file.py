"""The user's kernel file in a report: the verdict, and the findings that explain it."""

from typing import NamedTuple, Tuple

from ..checkpoints import editions
from ..explain import explanation
from ..explain.findings import KernelFinding
from ..judging import judge
from ..judging.verdict import Verdict
from ..kernel_files.formats import KernelFile


class ExplainedKernel(NamedTuple):
    """A kernel file, judged and explained on the layers of one edition."""

    name: str
    precision: str  # precision class of a correct file
    wrong: str  # reason why it is incorrect; "" if it is correct
    layer: str  # edition and number of the layer that the findings are about; "" for an incorrect file
    findings: Tuple[KernelFinding, ...]
    missing: Tuple[str, ...]  # tools that this machine lacks, and how to install them


def explained(verdict: Verdict, edition: str, seconds: float) -> ExplainedKernel:
    """Explain a file that has run with a network of this edition; stop after `seconds`."""
    if not verdict.right:
        return _wrong(verdict, verdict.sentence, seconds)
    layers = verdict.layers
    slow = explanation.why_slow(verdict.file, layers[-1], seconds=seconds)
    where = f"{edition}, layer {len(layers)}"
    return ExplainedKernel(verdict.file.name, verdict.precision, "", where, slow.findings, slow.missing)


def harmful(file: KernelFile, edition: str, device: int, wrong: str, seconds: float) -> ExplainedKernel:
    """Explain a file that must not run in this process: it crashes, hangs or writes outside tensors (`wrong`)."""
    shapes = list(editions.convolution_shapes(editions.get(edition)))
    return _wrong(judge.check(file, shapes=shapes, device=device), wrong, seconds)


def _wrong(verdict: Verdict, wrong: str, seconds: float) -> ExplainedKernel:
    found, missing = explanation.why_wrong(verdict, seconds)
    return ExplainedKernel(verdict.file.name, "", wrong, "", tuple(found), tuple(missing))
