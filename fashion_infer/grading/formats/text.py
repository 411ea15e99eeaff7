"""Writes verdicts as text for people: the points, what was wrong, and what to do about it."""

from typing import List

from ...system import noise
from ...system.text import shown
from ..verdict import JUDGED, GradeVerdict


def write(verdict: GradeVerdict) -> str:
    lines = [f"{verdict.name}: {verdict.marks.points:g} of {verdict.marks.out_of:g} points"]
    if verdict.kernel:
        lines[0] += (
            f" ({verdict.kernel}, format {verdict.format}, {verdict.rubric.network} on the {verdict.backend.upper()})"
        )
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
    lines += finding_lines(verdict.findings)
    why = ": ".join(["; not ranked", *filter(None, [", ".join(verdict.sandbox.get("lacking", []))])])
    lines.append(f"  sandbox: {verdict.sandbox['available']}{'' if verdict.ranked else why}")
    # Escape control characters, because the text goes to a terminal, and a file's name may contain any character.
    return "".join(f"{shown(line)}\n" for line in "\n".join(lines).split("\n"))


def finding_lines(findings) -> List[str]:
    lines = []
    for finding in findings:
        lines.append(f"  {finding.follows}: {finding.where}{': ' if finding.where else ''}{finding.text}")
        if finding.advice:
            lines.append(f"    what to do: {finding.advice}")
    return lines


def for_student(verdict: GradeVerdict) -> str:
    """Return the parts of the verdict, besides the marks, that the rubric lets a student see, as text."""
    show, lines = verdict.rubric.show, []
    if verdict.status != JUDGED:
        lines.append(verdict.reason)
    if show.diagnosis:
        lines += finding_lines(verdict.findings)
    if show.times:
        lines += [
            f"layer {times.layer}, n = {times.n}: Op Time {times.op:.3f} ms, Layer Time {times.layer_time:.3f} ms"
            for times in verdict.marks.times
        ]
    if show.printed and verdict.printed:
        lines += ["it printed:", verdict.printed]
    return "\n".join(lines)


def message(verdict: GradeVerdict, text: str) -> str:
    return text if verdict.rubric.show.diagnosis else ""
