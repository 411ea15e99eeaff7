"""Writes verdicts in Gradescope's format, for /autograder/results/results.json."""

import json

from ..verdict import GradeVerdict
from . import text


def write(verdict: GradeVerdict) -> str:
    """Return the document. It has a leaderboard entry if the rubric has a leaderboard and the verdict may be ranked."""
    tests = [
        {
            "name": mark.name,
            "number": str(number),
            "score": mark.points,
            "max_score": mark.out_of,
            "output": text.message(verdict, mark.message),
            "visibility": "visible",
            "status": "passed" if mark.passed else "failed",
            "tags": [mark.kind],
        }
        for number, mark in enumerate(verdict.marks.marks, 1)
    ]
    results = {
        "score": verdict.marks.points,
        "execution_time": round(verdict.seconds, 1),
        "output": text.for_student(verdict),
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {"sha256": verdict.digest, "status": verdict.status, "ranked": verdict.ranked},
    }
    if verdict.rubric.show.leaderboard and verdict.ranked and verdict.marks.op_ms is not None:
        results["leaderboard"] = [{"name": "Op Time, ms", "value": round(verdict.marks.op_ms, 4), "order": "asc"}]
    return json.dumps(results, indent=1)
