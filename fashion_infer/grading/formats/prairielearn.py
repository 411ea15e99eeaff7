"""Writes verdicts in PrairieLearn's format, for /grade/results/results.json."""

import json
from typing import Any, Dict

from ..verdict import FAILED, REFUSED, GradeVerdict
from . import text

_MOST = 1_000_000  # largest number of bytes of a document that PrairieLearn accepts


def write(verdict: GradeVerdict) -> str:
    """Return the document. A submission that this machine could not judge is not gradable."""
    if verdict.status == FAILED:
        return json.dumps({"gradable": False, "message": f"The grader failed: {verdict.reason}", "format_errors": []})
    results: Dict[str, Any] = {
        "gradable": True,
        "score": verdict.marks.points / verdict.marks.out_of if verdict.marks.out_of else 0.0,
        "message": verdict.reason if verdict.status == REFUSED else "",
        "output": text.for_student(verdict),
        "tests": [
            {
                "name": mark.name,
                "description": mark.kind,
                "points": mark.points,
                "max_points": mark.out_of,
                "message": text.message(verdict, mark.message),
                "output": "",
            }
            for mark in verdict.marks.marks
        ],
    }
    document = json.dumps(results, indent=1)
    if len(document) > _MOST:
        document = json.dumps({**results, "output": results["output"][: _MOST // 20]})
    return document
