"""The user's kernel file in a report: the verdict, and the findings that explain it."""

from typing import NamedTuple, Tuple

from ..checkpoints import editions
from ..explain import explanation
from ..explain.findings import KernelFinding
from ..judging import trials
from ..judging.trials import Checked
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
    file, tried, name = verdict.kernel.file, verdict.layers, verdict.kernel.name
    if verdict.wrong:
        return _wrong(name, Checked(file, tried), verdict.wrong, seconds)
    slow = explanation.why_slow(file, tried[-1], seconds=seconds)
    return ExplainedKernel(name, verdict.precision, "", f"{edition}, layer {len(tried)}", slow.findings, slow.missing)


def harmful(file: KernelFile, edition: str, device: int, wrong: str, seconds: float) -> ExplainedKernel:
    """Explain a file that must not run in this process: it crashes, hangs or writes outside tensors (`wrong`)."""
    shapes = list(editions.convolution_shapes(editions.get(edition)))
    return _wrong(file.name, trials.check(file, shapes=shapes, device=device), wrong, seconds)


def _wrong(name: str, checked: Checked, wrong: str, seconds: float) -> ExplainedKernel:
    found, missing = explanation.why_wrong(checked, seconds)
    return ExplainedKernel(name, "", wrong, "", tuple(found), tuple(missing))
