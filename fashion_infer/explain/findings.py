"""Findings on a kernel: the line, the cost, and the remedy."""

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..kernel_files import neighbours

GAINED = 1.2  # least gain of a step that a remedy refers to
FAR = 3.0  # a kernel that is so many times slower than a kernel of ours has a finding


@dataclass(frozen=True)
class KernelFinding:
    """One reason why a kernel is wrong or slow."""

    code: str  # a stable identifier, such as "missing_barrier": the name of its section in docs/why.md
    what: str  # description in one line
    file: Optional[str]
    line: Optional[int]
    source: Optional[str]  # the line's text
    share: Optional[float]  # estimated fraction of the time that this costs; None if it makes the kernel wrong
    remedy: str
    step: Optional[str]  # name of a step of the ladder in docs/kernels.json; on the CPU, of one of our kernels
    gain: Optional[float]  # speed of that step relative to the previous one; on the CPU, relative to the file
    evidence: Mapping[str, Any]
    before_ms: Optional[float] = None  # estimated Op Time after the remedies of the findings before this one
    after_ms: Optional[float] = None  # estimated Op Time after this remedy, too

    def as_dict(self) -> Dict[str, Any]:
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
    if gain is not None and gain < GAINED:
        step = gain = None
    return KernelFinding(code, what, str(path) if line else None, line, source, share, remedy, step, gain, evidence)


def exclusive(found: Sequence[KernelFinding]) -> List[KernelFinding]:
    """Make each finding's share one of what the findings before it leave, so that all together are at most 1."""
    left, made = 1.0, []
    for one in found:
        made.append(replace(one, share=left * (one.share or 0.0)))
        left -= made[-1].share or 0.0
    return made


def by_share(found: Sequence[KernelFinding]) -> List[KernelFinding]:
    return sorted(found, key=lambda one: -(one.share or 0.0))


def timed(found: Sequence[KernelFinding], milliseconds: Optional[float]) -> List[KernelFinding]:
    """Sort findings by exclusive shares, and estimate the Op Time before and after each remedy, in this order."""
    left, made = 1.0, []
    for one in by_share(found):
        after = left - (one.share or 0.0)
        if milliseconds:
            one = replace(one, before_ms=milliseconds * left, after_ms=milliseconds * after)
        made.append(one)
        left = after
    return made
