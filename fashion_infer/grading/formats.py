"""Formats in which verdicts are written: text for people, and documents for autograders and continuous integration."""

import json
import re
import xml.etree.ElementTree as ElementTree
from typing import Any, Callable, Dict, List, NamedTuple

from ..system import noise
from ..system.text import shown
from .verdict import FAILED, JUDGED, REFUSED, GradeVerdict, as_json

# Characters that XML 1.0 cannot contain. They are replaced, because a submission may print them.
_IMPOSSIBLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_text(verdict: GradeVerdict) -> str:
    lines = [f"{shown(verdict.name)}: {verdict.marks.points:g} of {verdict.marks.out_of:g} points"]
    if verdict.kernel:
        network = f"{verdict.rubric.network} on the {verdict.backend.upper()}"
        lines[0] += f" ({shown(verdict.kernel)}, format {verdict.format}, {network})"
    if verdict.status != JUDGED:
        lines.append(f"  {verdict.status}: {verdict.reason}")
    for mark in verdict.marks.marks:
        state = "ok  " if mark.passed else "part" if mark.points else "NO  "
        lines.append(f"  {state} {mark.name:<12} {mark.points:>6g} of {mark.out_of:<6g} {mark.message}")
    for times in verdict.marks.times:
        spread = "unknown spread" if times.spread is None else f"spread {times.spread:.1%}"
        lines.append(
            f"       layer {times.layer}, n = {times.n}: Op Time {times.op:.3f} ms ({spread}, "
            f"{len(times.samples)} calls), Layer Time {times.layer_time:.3f} ms, {times.worker:.3f} ms by its own clock"
        )
    lines += [f"       {said}" for said in [noise.about_load(verdict.load)] if said]
    lines += _finding_lines(verdict.findings)
    why = ": ".join(["; not ranked", *filter(None, [", ".join(verdict.sandbox.get("lacking", []))])])
    lines.append(f"  sandbox: {verdict.sandbox['available']}{'' if verdict.ranked else why}")
    # Escape control characters, because the text goes to a terminal, and a file's name may contain any character.
    return "".join(f"{shown(line)}\n" for line in "\n".join(lines).split("\n"))


def _finding_lines(findings) -> List[str]:
    lines = []
    for finding in findings:
        lines.append(f"  {finding.follows}: {finding.where}{': ' if finding.where else ''}{finding.text}")
        if finding.advice:
            lines.append(f"    what to do: {finding.advice}")
    return lines


def _for_student(verdict: GradeVerdict) -> str:
    """Return the parts of the verdict, besides the marks, that the rubric lets a student see, as text."""
    show, lines = verdict.rubric.show, []
    if verdict.status != JUDGED:
        lines.append(verdict.reason)
    if show.diagnosis:
        lines += _finding_lines(verdict.findings)
    if show.times:
        lines += [
            f"layer {times.layer}, n = {times.n}: Op Time {times.op:.3f} ms, Layer Time {times.layer_time:.3f} ms"
            for times in verdict.marks.times
        ]
    if show.printed and verdict.printed:
        lines += ["it printed:", verdict.printed]
    return "\n".join(lines)


def _message(verdict: GradeVerdict, text: str) -> str:
    return text if verdict.rubric.show.diagnosis else ""


def gradescope(verdict: GradeVerdict) -> str:
    """Return Gradescope's document, with a leaderboard entry if the rubric has a leaderboard and it may be ranked."""
    tests = [
        {
            "name": mark.name,
            "number": str(number),
            "score": mark.points,
            "max_score": mark.out_of,
            "output": _message(verdict, mark.message),
            "visibility": "visible",
            "status": "passed" if mark.passed else "failed",
            "tags": [mark.kind],
        }
        for number, mark in enumerate(verdict.marks.marks, 1)
    ]
    results = {
        "score": verdict.marks.points,
        "execution_time": round(verdict.seconds, 1),
        "output": _for_student(verdict),
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {"sha256": verdict.digest, "status": verdict.status, "ranked": verdict.ranked},
    }
    if verdict.rubric.show.leaderboard and verdict.ranked and verdict.marks.op_ms is not None:
        results["leaderboard"] = [{"name": "Op Time, ms", "value": round(verdict.marks.op_ms, 4), "order": "asc"}]
    return json.dumps(results, indent=1)


def prairielearn(verdict: GradeVerdict) -> str:
    """Return PrairieLearn's document. A submission that this machine could not judge is not gradable."""
    if verdict.status == FAILED:
        return json.dumps({"gradable": False, "message": f"The grader failed: {verdict.reason}", "format_errors": []})
    results: Dict[str, Any] = {
        "gradable": True,
        "score": verdict.marks.points / verdict.marks.out_of if verdict.marks.out_of else 0.0,
        "message": verdict.reason if verdict.status == REFUSED else "",
        "output": _for_student(verdict),
        "tests": [
            {
                "name": mark.name,
                "description": mark.kind,
                "points": mark.points,
                "max_points": mark.out_of,
                "message": _message(verdict, mark.message),
                "output": "",
            }
            for mark in verdict.marks.marks
        ],
    }
    return json.dumps(results, indent=1)


def junit(verdict: GradeVerdict) -> str:
    """Return JUnit's XML. A check without all of its points is a failure, or an error if the machine failed."""
    marks = verdict.marks.marks
    failed = [mark for mark in marks if not mark.passed]
    broken = verdict.status == FAILED
    suite = ElementTree.Element(
        "testsuite",
        name=_clean(verdict.name),
        tests=str(len(marks)),
        errors=str(len(failed) if broken else 0),
        failures=str(0 if broken else len(failed)),
        skipped="0",
        time=f"{verdict.seconds:.3f}",
        timestamp=verdict.when[:-1],
    )
    for mark in marks:
        named = {"classname": _clean(verdict.name), "name": _clean(mark.name)}
        case = ElementTree.SubElement(suite, "testcase", named, time="0.000")
        if not mark.passed:
            said = f"{mark.points:g} of {mark.out_of:g} points: {_message(verdict, mark.message)}"
            ElementTree.SubElement(case, "error" if broken else "failure", message=_clean(said), type=mark.kind)
    ElementTree.SubElement(suite, "system-out").text = _clean(_for_student(verdict))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _clean(words: str) -> str:
    return _IMPOSSIBLE.sub("\ufffd", words)


class Format(NamedTuple):
    write: Callable[[GradeVerdict], str]  # converts a verdict to the text of a file
    file: str  # name of the file in a folder of results


FORMATS: Dict[str, Format] = {
    "text": Format(as_text, "verdict.txt"),
    "json": Format(as_json, "verdict.json"),
    "gradescope": Format(gradescope, "results.json"),
    "prairielearn": Format(prairielearn, "results.json"),
    "junit": Format(junit, "junit.xml"),
}
