"""Findings on a kernel: the line, the cost, and the remedy."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from ..kernel_files import neighbours


@dataclass(frozen=True)
class KernelFinding:
    """One reason why a kernel is wrong or slow."""

    code: str  # a stable identifier, such as "missing_barrier"
    what: str  # description in one line
    file: Optional[str]
    line: Optional[int]
    source: Optional[str]  # the line's text
    share: Optional[float]  # estimated fraction of the kernel's time that this costs; None if it makes the kernel wrong
    remedy: str
    step: Optional[str]  # name of a step of the ladder in docs/kernels.json; on the CPU, of one of our kernels
    gain: Optional[float]  # speed of that step relative to the previous step, from docs/kernels.json
    evidence: Mapping[str, Any]

    def as_dict(self) -> Dict[str, Any]:
        """Return the finding as a dictionary for JSON."""
        return asdict(self)


def plain_name(name: str) -> str:
    """Return a function's name from its mangled name, unless it is in a class or namespace."""
    match = re.match(r"_ZL?(\d{1,3})(\w+)", name)
    return match[2][: int(match[1])] if match else name


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
    """Make a finding that quotes its source line; without a line, it applies to the whole file."""
    lines = neighbours.text_of(path).splitlines() if line else []
    source = lines[line - 1].strip() if line and line <= len(lines) else None
    return KernelFinding(code, what, str(path) if line else None, line, source, share, remedy, step, gain, evidence)
