"""Converts a verdict, whose malformed parts are left out, to text and tables. Needs no extra."""

import math
import re
import shlex
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar

_Made = TypeVar("_Made")
_MOST_SOURCE = 200_000  # largest number of characters of a file whose lines are shown


class VerdictFinding(NamedTuple):
    follows: str  # the consequence, such as "refused"
    text: str
    advice: str  # what to do about it


class CompilerFinding(NamedTuple):
    code: str  # name of its section in docs/why.md
    text: str
    source: str  # the line of the submission; "" if the finding is not about one line
    remedy: str  # what to do about it


class SourceLine(NamedTuple):
    number: int
    text: str
    notes: List[str]  # what names this line


class VerdictParts(NamedTuple):
    findings: List[VerdictFinding]
    tables: List[Tuple[str, list]]  # (heading, list of present.content.Table)
    printed: str  # what the submission printed
    facts: List[Tuple[str, str]]  # (name, value), about the submission and its judging
    explained: List[CompilerFinding]


OF_A_TEST = (
    "A test: it has no rank and no marks. Findings that need a profiler come from the command fashion-infer kernel "
    "explain on your own machine."
)


def sentence(status: str, judgement: Any, verdict: Optional[Dict[str, Any]], times: bool = True) -> str:
    """Return the outcome of a submission in one sentence, with times if the reader may see them; "" before it ends."""
    if judgement is None:
        return ""
    if status == "failed":
        return f"The grader could not judge this submission, which is not your fault: {judgement.reason}"
    points = f"{judgement.points:g} of {judgement.out_of:g} points"
    if status == "incorrect":
        why = next((one.text for one in findings(verdict or {}) if one.follows == "refused"), "")
        return f"Incorrect: {why}; {points}." if why else f"Incorrect: {points}."
    if status != "judged":
        return judgement.reason
    text = f"Correct: {points}" + (f", Op Time {judgement.op_ms:.3f} ms." if times and judgement.op_ms else ".")
    if judgement.ranked or judgement.purpose == "test":
        return text
    return f"{text} Not ranked, because this grader may not rank: tell your instructor."


def findings(verdict: Dict[str, Any]) -> List[VerdictFinding]:
    def finding(one: Dict[str, Any]) -> VerdictFinding:
        text = f"{one['text']} ({one['where']})" if one["where"] else str(one["text"])
        return VerdictFinding(str(one["follows"]), text, str(one.get("advice", "")))

    return _list_or_empty(lambda: list(map(finding, verdict["findings"])))


def source_lines(content: bytes, name: str, said: List[str]) -> List[SourceLine]:
    """Return the lines of a submitted file, with the texts that name them as NAME:LINE; [] if it is not a text."""
    text = content.decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\n")
    if "\0" in text or len(text) > _MOST_SOURCE:
        return []
    notes: Dict[str, List[str]] = {}
    for one in said:
        for number in set(re.findall(rf"(?<![\w.-]){re.escape(name)}:(\d+)\b", one)):
            notes.setdefault(number, []).append(one)
    return [SourceLine(at, line, notes.get(str(at), [])) for at, line in enumerate(text.split("\n"), 1)]


def lost(verdict: Dict[str, Any]) -> List[str]:
    def read() -> List[str]:
        return [
            f"{one['name']}: {float(one['points']):g} of {float(one['out_of']):g} points"
            f"{': ' + str(one['message']) if one.get('message') else ''}"
            for one in verdict["marks"]
            if float(one["points"]) < float(one["out_of"])
        ]

    return _list_or_empty(read)


def parts(verdict: Dict[str, Any], everything: bool) -> VerdictParts:
    from ..present.content import Table

    show = shown(verdict)

    def may(what: str) -> bool:
        return everything or show.get(what, True) is True

    points: List[Table] = _list_or_empty(lambda: [_marks(verdict, may("diagnosis"))])
    times: List[Table] = _list_or_empty(lambda: _throughput(verdict))
    tables = [("Points", points), ("Times", times if may("times") else [])]
    printed = verdict.get("printed")
    return VerdictParts(
        findings(verdict) if may("diagnosis") else [],
        [one for one in tables if one[1]],
        printed if may("printed") and isinstance(printed, str) else "",
        _facts(verdict, everything),
        explained(verdict),
    )


def shown(verdict: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    return _dict(_dict(verdict or {}, "rubric"), "show")


def _facts(verdict: Dict[str, Any], everything: bool) -> List[Tuple[str, str]]:
    submission, device, sandbox = (_dict(verdict, name) for name in ("submission", "device", "sandbox"))
    named = (
        ("Kernel file", submission.get("kernel")),
        ("Format", submission.get("format")),
        ("Backend", verdict.get("backend")),
        ("Device", device.get("name") or device.get("gpu") or device.get("cpu")),
        ("Sandbox", sandbox.get("available") if everything else None),
        ("Explain it with", _command(verdict) if shown(verdict).get("explain") is True else None),
    )
    return [(name, str(value)[:300]) for name, value in named if value]


def _command(verdict: Dict[str, Any]) -> str:
    """Return the command with which the author can explain the kernel file elsewhere: the board never profiles."""
    kernel, edition = _dict(verdict, "submission").get("kernel"), _dict(verdict, "rubric").get("edition")
    chosen = f" --edition {shlex.quote(edition)}" if isinstance(edition, str) and edition else ""
    return f"fashion-infer kernel explain {shlex.quote('./' + kernel)}{chosen}" if isinstance(kernel, str) else ""


def explained(verdict: Dict[str, Any]) -> List[CompilerFinding]:
    if shown(verdict).get("explain") is not True:
        return []
    return _list_or_empty(
        lambda: [
            CompilerFinding(str(one["code"]), str(one["what"]), str(one["source"] or ""), str(one["remedy"]))
            for one in verdict.get("explain", ())
        ]
    )


def _dict(value: Dict[str, Any], name: str) -> Dict[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _list_or_empty(make: Callable[[], List[_Made]]) -> List[_Made]:
    try:
        return make()
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError):
        return []


def _marks(verdict: Dict[str, Any], diagnosis: bool):
    from ..present.content import number, table

    rows = []
    for mark in verdict["marks"]:
        points = number(float(mark["points"]), "g"), number(float(mark["out_of"]), "g")
        rows.append([mark["name"], *points, *([mark["message"]] if diagnosis else [])])
    return table("By check", ["check", ">points", ">of", *(["why"] if diagnosis else [])], rows)


def _throughput(verdict: Dict[str, Any]):
    """Return a list with a table of each layer's times and throughput, and of the time to write its output."""
    from ..bench.records import ConvolutionShape
    from ..present.content import number, percent, table

    shapes = {
        (s["case"]["layer"], s["case"]["shape"][0]): ConvolutionShape(*map(int, s["case"]["shape"]))
        for s in verdict["samples"]
    }
    rows = []
    for times in verdict["times"]:
        layer, n, op = times["layer"], times["n"], float(times["op"])
        shape = shapes[layer, n]
        fill = float(verdict["fill_ms"].get(f"layer {layer}, n = {n}", math.nan))
        rows.append(
            [
                f"layer {layer}: {shape.title}",
                number(op, ".3f"),
                number(float(times["layer_time"]), ".3f"),
                percent(None if times["spread"] is None else float(times["spread"])),
                None if math.isnan(fill) else number(fill, ".3f"),
                None if math.isnan(fill) else number(op / fill, ".1f"),
                number(shape.bytes / op / 1e6, ",.0f"),
                number(shape.operations / op / 1e9, ".3f"),
            ]
        )
    columns = ["layer", ">Op Time, ms", ">Layer Time, ms", ">spread", ">write floor, ms", ">times the floor", ">GB/s",
               ">TFLOP/s"]  # fmt: skip
    return [table("Layers, and the time to write their output", columns, rows)] if rows else []
