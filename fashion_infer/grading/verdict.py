"""A verdict: everything that was found of one submission, with all that is needed to find it again."""

import json
import os
import platform
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np

from .. import __version__
from ..errors import DataError, UsageError
from ..library import build
from ..system import inputs
from . import rubric as rubrics
from .marks import Mark, Marks
from .referee.findings import Finding
from .referee.inputs import Seed
from .referee.samples import Sample
from .rubric import Rubric

KIND = "fashion-infer verdict"
VERSION = 1
LARGEST = 64 << 20  # bytes of a verdict's file
# The submission was run, or could not be for what it is; or this machine could not judge it.
JUDGED, REFUSED, FAILED = "judged", "refused", "failed"


class GradeVerdict(NamedTuple):
    """One submission's. Times in milliseconds."""

    name: str
    source: str
    status: str  # JUDGED, REFUSED or FAILED
    reason: str  # why it was not judged; "" where it was
    digest: str  # SHA-256 of all its files
    kernel: str  # the kernel file in it
    format: str
    backend: str  # "cpu" or "gpu"
    rubric: Rubric
    seed: Seed
    ranked: bool  # whether it may be: with a sandbox, and nothing refused
    sandbox: Dict[str, Any]  # the layers in force
    findings: Tuple[Finding, ...]
    marks: Marks
    samples: Tuple[Sample, ...]
    fill_ms: Dict[str, float]
    printed: str
    build_seconds: float
    seconds: float  # that judging took
    device: Dict[str, Any]
    when: str

    @property
    def judged(self) -> bool:
        """Whether the machine could judge it, whatever it came to."""
        return self.status != FAILED


def now() -> str:
    """The current UTC time, in the format of verdicts."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def processor() -> Dict[str, Any]:
    """Name of the CPU, and number of cores that this process may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {"cpu": names[0] if names else platform.machine(), "cores": len(os.sched_getaffinity(0))}


def as_dict(verdict: GradeVerdict) -> Dict[str, Any]:
    """For JSON."""
    return {
        "kind": KIND, "version": VERSION,
        "submission": {"name": verdict.name, "source": verdict.source, "sha256": verdict.digest,
                       "kernel": verdict.kernel, "format": verdict.format},
        "status": verdict.status, "reason": verdict.reason, "ranked": verdict.ranked,
        "points": verdict.marks.points, "out_of": verdict.marks.out_of,
        "op_time_ms": verdict.marks.op_ms, "layer_time_ms": verdict.marks.layer_ms,
        "marks": [mark._asdict() for mark in verdict.marks.marks],
        "findings": [{**finding._asdict(), "follows": finding.follows, "advice": finding.advice}
                     for finding in verdict.findings],
        "times": [times._asdict() for times in verdict.marks.times],
        "samples": [{**sample._asdict(), "case": {"layer": sample.case.layer, "shape": sample.case.shape}}
                    for sample in verdict.samples],
        "fill_ms": verdict.fill_ms, "printed": verdict.printed,
        "build_seconds": verdict.build_seconds, "seconds": verdict.seconds,
        "backend": verdict.backend, "device": verdict.device, "sandbox": verdict.sandbox,
        "seed": verdict.seed.hex, "rubric": rubrics.as_dict(verdict.rubric), "when": verdict.when,
        "versions": {"fashion-infer": __version__, "library": build.build_info(), "numpy": np.__version__,
                     "python": platform.python_version(), "kernel": platform.release()},
    }  # fmt: skip


def as_json(verdict: GradeVerdict) -> str:
    """The document; ValueError where a number is not finite."""
    return json.dumps(as_dict(verdict), indent=1, allow_nan=False)


class Again(NamedTuple):
    """Parts of a verdict's document that `--repeat` uses."""

    source: str
    digest: str
    seed: Seed
    rubric: Rubric
    backend: str
    marks: Tuple[Mark, ...]

    def differences(self, verdict: GradeVerdict) -> List[str]:
        """Differences between the checks of two verdicts, one line each; none when they agree."""
        before = {(mark.name, mark.kind): mark for mark in self.marks}
        lines = []
        for mark in verdict.marks.marks:
            old = before.get((mark.name, mark.kind))
            if old is not None and (old.passed, old.points) != (mark.passed, mark.points):
                lines.append(f"{mark.name}: {old.points:g} points before ({old.message}), {mark.points:g} now")
        return lines


def read(path: str) -> Again:
    """Read what is needed to judge again; DataError when it is no verdict."""
    try:
        found = json.loads(inputs.read(path, LARGEST, DataError, "the verdict ").decode("utf-8"))
        if found["kind"] != KIND or found["version"] != VERSION:
            raise ValueError(f"it is of kind {found['kind']}, version {found['version']}")
        marks = tuple(_mark(mark) for mark in found["marks"])
        submission, backend = found["submission"], found["backend"]
        source = submission["source"]
        if not isinstance(source, str) or not source or "\0" in source:
            raise ValueError("its source is not a path")
        if backend not in ("cpu", "gpu"):
            raise ValueError("its backend is neither cpu nor gpu")
        digest, seed = _hexadecimal(submission["sha256"], (0, 64)), _hexadecimal(found["seed"], (32,))
        return Again(source, digest, Seed(int(seed, 16)), rubrics.of_dict(found["rubric"]), backend, marks)
    except (ValueError, KeyError, TypeError, RecursionError, UsageError) as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"{path} is no verdict of this version ({why})") from None


def _hexadecimal(value: Any, lengths: Tuple[int, ...]) -> str:
    if not isinstance(value, str) or len(value) not in lengths or set(value) - set("0123456789abcdef"):
        raise ValueError("a digest or the seed is no hexadecimal number")
    return value


def _mark(values: Any) -> Mark:
    mark = Mark(**values)
    points = (mark.points, mark.out_of)
    if not all(isinstance(text, str) for text in (mark.name, mark.kind, mark.message)) or not all(
        isinstance(number, (int, float)) and 0 <= number <= 1e12 for number in points
    ):
        raise ValueError("a mark has values of another kind")
    return mark
