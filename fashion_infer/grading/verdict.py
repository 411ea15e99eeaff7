"""A verdict: all results of judging one submission, and everything that is needed to judge it again."""

import json
import os
import platform
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ..errors import DataError, UsageError
from ..judging.inputs import Seed
from ..library import bindings
from ..system import inputs
from ..version import __version__
from . import rubric as rubrics
from .marks import Mark, Marks
from .referee.findings import Finding
from .referee.samples import Sample
from .rubric import Rubric

KIND = "fashion-infer verdict"
VERSION = 1
LARGEST = 64 << 20  # largest number of bytes of a verdict's file
JUDGED = "judged"  # status of a submission that was run
REFUSED = "refused"  # status of a submission that could not be run because of its content
FAILED = "failed"  # status of a submission that this machine could not judge


class GradeVerdict(NamedTuple):
    """The verdict on one submission. Times in `marks` and `fill_ms` are in milliseconds, all others in seconds."""

    name: str
    source: str
    status: str  # JUDGED, REFUSED or FAILED
    reason: str  # reason why it was not judged; "" if it was judged
    digest: str  # SHA-256 of all files of the submission
    kernel: str  # path of the kernel file in the submission
    format: str
    backend: str  # "cpu" or "gpu"
    rubric: Rubric
    seed: Seed
    ranked: bool  # whether it may be ranked: it ran in a sandbox, and no finding is REFUSED
    sandbox: Dict[str, Any]  # the layers of the sandbox: those of the machine, and those in force
    findings: Tuple[Finding, ...]
    marks: Marks
    samples: Tuple[Sample, ...]
    fill_ms: Dict[str, float]  # by case, the shortest time in which the referee wrote as many bytes as the output has
    printed: str  # the beginning of what the submission printed
    build_seconds: float
    seconds: float  # time for judging the submission, in seconds
    device: Dict[str, Any]  # facts about the CPU and the GPU
    when: str  # UTC time of the verdict
    # What the compiler says about a correct submission, as findings for JSON; empty without `explain` in the rubric.
    explained: Tuple[Dict[str, Any], ...] = ()
    load: Optional[float] = None  # share of the processors' time that other programs used while it was timed


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def processor() -> Dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {"cpu": names[0] if names else platform.machine(), "cores": len(os.sched_getaffinity(0))}


def as_dict(verdict: GradeVerdict) -> Dict[str, Any]:
    return {
        "kind": KIND, "version": VERSION,
        "submission": {"name": verdict.name, "source": verdict.source, "sha256": verdict.digest,
                       "kernel": verdict.kernel, "format": verdict.format},
        "status": verdict.status, "reason": verdict.reason, "ranked": verdict.ranked,
        "points": verdict.marks.points, "out_of": verdict.marks.out_of,
        "op_time_ms": verdict.marks.op_ms, "layer_time_ms": verdict.marks.layer_ms,
        "marks": [mark._asdict() for mark in verdict.marks.marks],
        "findings": [{"code": one.code, "where": one.where, "text": one.text, "follows": one.follows,
                      "advice": one.advice} for one in verdict.findings],
        **({"explain": list(verdict.explained)} if verdict.rubric.show.explain else {}),
        "times": [times._asdict() for times in verdict.marks.times],
        "samples": [{**sample._asdict(), "case": {"layer": sample.case.layer, "shape": sample.case.shape}}
                    for sample in verdict.samples],
        "load": verdict.load, "fill_ms": verdict.fill_ms, "printed": verdict.printed,
        "build_seconds": verdict.build_seconds, "seconds": verdict.seconds,
        "backend": verdict.backend, "device": verdict.device, "sandbox": verdict.sandbox,
        "seed": verdict.seed.hex, "rubric": rubrics.as_dict(verdict.rubric), "when": verdict.when,
        "versions": {"fashion-infer": __version__, "library": bindings.build_info(), "numpy": np.__version__,
                     "python": platform.python_version(), "kernel": platform.release()},
    }  # fmt: skip


def as_json(verdict: GradeVerdict) -> str:
    return json.dumps(as_dict(verdict), indent=1, allow_nan=False)


class Again(NamedTuple):
    source: str
    digest: str
    seed: Seed
    rubric: Rubric
    backend: str
    marks: Tuple[Mark, ...]

    def differences(self, verdict: GradeVerdict) -> List[str]:
        before = {(mark.name, mark.kind): mark for mark in self.marks}
        lines = []
        for mark in verdict.marks.marks:
            old = before.get((mark.name, mark.kind))
            if old is not None and (old.passed, old.points) != (mark.passed, mark.points):
                lines.append(f"{mark.name}: {old.points:g} points before ({old.message}), {mark.points:g} now")
        return lines


def read(path: str) -> Again:
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
        raise DataError(f"{path} is not a verdict of this version ({why})") from None


def _hexadecimal(value: Any, lengths: Tuple[int, ...]) -> str:
    if not isinstance(value, str) or len(value) not in lengths or set(value) - set("0123456789abcdef"):
        raise ValueError("a digest or the seed is not a hexadecimal number")
    return value


def _mark(values: Any) -> Mark:
    mark = Mark(**values)
    points = (mark.points, mark.out_of)
    if not all(isinstance(text, str) for text in (mark.name, mark.kind, mark.message)) or not all(
        isinstance(number, (int, float)) and 0 <= number <= 1e12 for number in points
    ):
        raise ValueError("a mark has a value of the wrong type")
    return mark
