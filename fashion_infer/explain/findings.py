"""Findings on a kernel: the line, the cost, and the remedy."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional


@dataclass(frozen=True)
class KernelFinding:
    """One reason why a kernel is wrong or slow."""

    code: str  # a stable identifier, as in "missing_barrier"
    what: str  # one line
    file: Optional[str]
    line: Optional[int]
    source: Optional[str]  # the line's text
    share: Optional[float]  # estimated fraction of the kernel's time that it costs; None when it makes it wrong
    remedy: str
    step: Optional[str]  # step of the ladder, as docs/kernels.json names it; on the CPU one of our kernels
    gain: Optional[float]  # times faster than the step before, by docs/kernels.json
    evidence: Mapping[str, Any]

    def as_dict(self) -> Dict[str, Any]:
        """For JSON."""
        return asdict(self)


def at_line(
    path: Path,
    line: Optional[int],
    code: str,
    what: str,
    remedy: str,
    evidence: Mapping[str, Any],
    share: Optional[float] = None,
    step: Optional[str] = None,
    gain: Optional[float] = None,
) -> KernelFinding:
    """A finding that quotes its line; one of the whole file where there is no line."""
    lines = path.read_text(errors="replace").splitlines() if line else []
    source = lines[line - 1].strip() if line and line <= len(lines) else None
    return KernelFinding(code, what, str(path) if line else None, line, source, share, remedy, step, gain, evidence)
