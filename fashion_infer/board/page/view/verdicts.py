"""What a verdict's document says, as tables, findings and facts.

It holds words of the submission's own: a part that is not as it must be is left out.
"""

import math
from typing import Any, Callable, Dict, List, Tuple, TypeVar

from ....bench.records import ConvolutionShape
from ....present.content import Table, number, percent, table
from ....present.profile import activities
from ....profiling import tables
from ....profiling.records import KERNEL, Record
from . import values

_Made = TypeVar("_Made")


def parts(
    verdict: Dict[str, Any], all_of_it: bool
) -> Tuple[List[values.Found], List[values.Tables], List[values.Lines]]:
    """Findings, tables and texts of a verdict.

    Parameters
    ----------
    verdict
        The grader's document.
    all_of_it
        For the class's staff; else what the rubric lets a student see.
    """
    show = _dict(_dict(verdict, "rubric"), "show")

    def may(what: str) -> bool:
        return all_of_it or show.get(what, True) is True

    found = _tried(lambda: _findings(verdict)) if may("diagnosis") else []
    sheets = [values.Tables("Points", [one]) for one in _tried(lambda: [_marks(verdict, may("diagnosis"))])]
    if may("times"):
        profile = _tried(lambda: _throughput(verdict)) + _tried(lambda: _profile(verdict))
        sheets += [values.Tables("Profile", profile)] if profile else []
    printed = verdict.get("printed")
    texts = []
    if may("printed") and isinstance(printed, str) and printed:
        texts.append(values.Lines("printed", "What it printed", printed))
    return found, sheets, texts


def facts(verdict: Dict[str, Any]) -> List[Tuple[str, str]]:
    """What was judged, on what, when."""
    submission, device, sandbox = (_dict(verdict, name) for name in ("submission", "device", "sandbox"))
    named = (
        ("Kernel file", submission.get("kernel")), ("Format", submission.get("format")),
        ("Backend", verdict.get("backend")), ("Device", device.get("name") or device.get("gpu") or device.get("cpu")),
        ("Sandbox", sandbox.get("available")), ("Judged", verdict.get("when")),
    )  # fmt: skip
    return [(name, str(value)[:300]) for name, value in named if value]


def _dict(value: Dict[str, Any], name: str) -> Dict[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _tried(make: Callable[[], List[_Made]]) -> List[_Made]:
    try:
        return make()
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError):
        return []


def _findings(verdict: Dict[str, Any]) -> List[values.Found]:
    rows = []
    for one in verdict["findings"]:
        text = f"{one['where']}: {one['text']}" if one["where"] else str(one["text"])
        kind = "bad" if one["follows"] == "refused" else "busy"
        rows.append(values.Found(str(one["follows"]), kind, text, str(one.get("advice", ""))))
    return rows


def _marks(verdict: Dict[str, Any], diagnosis: bool) -> Table:
    rows = []
    for mark in verdict["marks"]:
        points = number(float(mark["points"]), "g"), number(float(mark["out_of"]), "g")
        rows.append([mark["name"], *points, *([mark["message"]] if diagnosis else [])])
    return table("By check", ["check", ">points", ">of", *(["why"] if diagnosis else [])], rows)


def _throughput(verdict: Dict[str, Any]) -> List[Table]:
    """Each layer beside what the hardware needs to write its output; as `fashion-infer profile` has convolutions."""
    shapes = {(s["case"]["layer"], s["case"]["shape"][0]): ConvolutionShape(*map(int, s["case"]["shape"]))
              for s in verdict["samples"]}  # fmt: skip
    rows = []
    for times in verdict["times"]:
        layer, n, op = times["layer"], times["n"], float(times["op"])
        shape = shapes[layer, n]
        fill = float(verdict["fill_ms"].get(f"layer {layer}, n = {n}", math.nan))
        rows.append([
            f"layer {layer}: {shape.title}", number(op, ".3f"), number(float(times["layer_time"]), ".3f"),
            percent(float(times["spread"])), None if math.isnan(fill) else number(fill, ".3f"),
            None if math.isnan(fill) else number(op / fill, ".1f"), number(shape.bytes / op / 1e6, ",.0f"),
            number(shape.operations / op / 1e9, ".3f"),
        ])  # fmt: skip
    columns = ["layer", ">Op Time, ms", ">Layer Time, ms", ">spread", ">limit, ms", ">times the limit", ">GB/s",
               ">TFLOP/s"]  # fmt: skip
    return [table("Layers, beside writing their output and computing nothing", columns, rows)] if rows else []


def _profile(verdict: Dict[str, Any]) -> List[Table]:
    """The timed calls as nvprof would list them."""
    records = []
    for sample in verdict["samples"]:
        if sample["timed"]:
            name = f"layer {sample['case']['layer']}, {int(sample['case']['shape'][0]):,} images"
            records.append(Record(KERNEL, name, 0, round(1e9 * float(sample["op_seconds"])), ""))
    return [activities(tables.tabulate("Timed calls, by the referee's clock", records))] if records else []
