"""The page of a benchmark, its section of the report, and its output on a terminal."""

from pathlib import Path
from typing import Any, Dict, List, Optional, Union

from ...bench.records import BenchCase, BenchResult, LogitsCheck
from ...bench.verdicts import Comparison
from ...system import installation
from ...system.text import shown
from ..content import Command, Folded, Missing, Page, Part, Picture, Text, number, table
from . import convolutions, networks
from .columns import BenchText, case_parts


def text_of(result: BenchResult) -> BenchText:
    return {"conv": convolutions.TEXT, "net": networks.TEXT}[result.benchmark]


def page(result: BenchResult, file: str, plot: Optional[str] = None, as_json: bool = False) -> Page:
    """Make a page of documentation, to be written to `file`. Its command writes the JSON next to it."""
    text = text_of(result)
    markdown, chart = Path(file), plot and Path(plot).name
    words = [result.command, as_json and "--json", chart and f"--plot {chart}", f"--markdown {markdown.name}"]
    words += [as_json and f"> {markdown.stem}.json"]
    writer = f"fashion-infer bench {result.benchmark}"
    versions = "; ".join(f"{what}: {which}" for what, which in result.versions.items())
    head: List[Part] = [
        Text(f"{writer} writes this page; do not edit it by hand. The command, run in this folder:"),
        Command(" ".join(filter(None, words))),
        Text(f"{device(result.device)}. {versions}."),
        *map(Text, text.how(result)),
        *([Picture(chart, text.chart)] if chart else []),
        *_left_out(result),
    ]
    return Page(text.title(result), head, text.sections(result))


def parts(result: BenchResult, picture: Optional[str]) -> List[Part]:
    text = text_of(result)
    found: List[Part] = [Text(f"{result.device['name']}.")]
    if picture:
        found.append(Picture(picture, ". ".join([text.chart, *text.answer(result)])))
    how: List[Part] = [Text(said) for said in text.how(result)]
    found += [Command(result.command), Folded("How it is measured, and what the columns say", how)]
    return [*found, *(part for section in text.sections(result) for part in section.parts), *_left_out(result)]


def done(what: Union[BenchCase, LogitsCheck]) -> List[Part]:
    return [networks.check(what)] if isinstance(what, LogitsCheck) else case_parts(what)


def closing(result: BenchResult) -> List[Part]:
    text = text_of(result)
    answer: List[Part] = [Text(f"\n{said}" if place == 0 else said) for place, said in enumerate(text.answer(result))]
    return [*text.closing(result), *answer]


def not_compared(result: BenchResult) -> Optional[str]:
    """Return a text that says which peers were left out, and why; None if none was left out."""
    if not result.not_compared:
        return None
    return "not compared with " + ", ".join(f"{peer} ({why})" for peer, why in result.not_compared.items())


def notice(result: BenchResult) -> Optional[str]:
    """Return the text of `not_compared` and, if peers are not installed, how to install them; None for no text."""
    said = not_compared(result)
    return f"{said}; {installation.extra('peers')}" if said and "not installed" in said else said


def device(known: Dict[str, Any]) -> str:
    """Describe the machine: a GPU, or a CPU with its instruction set and the number of threads in use."""
    if "capability" in known:
        capability = ".".join(map(str, known["capability"]))
        return (
            f"{known['name']} (compute capability {capability}, {known['multiprocessors']} SMs, "
            f"{known['memory_total'] / 2**30:.0f} GiB), driver for CUDA {known['driver_version']}, "
            f"library built with CUDA {known['runtime_version']}"
        )
    return f"{known['name']}, {known['instructions']}, {known['threads']} threads"


def _left_out(result: BenchResult) -> List[Part]:
    said = not_compared(result)
    return [Missing(f"{said[0].upper()}{said[1:]}.")] if said else []


def comparison(found: Comparison) -> List[Part]:
    """Make the tables of `compare`: settings that differ, all times, and facts that must not change."""
    parts: List[Part] = [Text(f"A: {shown(found.a.name)}\nB: {shown(found.b.name)}")]
    if found.settings:
        parts.append(table("", ["setting that differs", "A", "B"], found.settings))
    rows = []
    for line in found.lines:
        times = [number(value, ".4g") for value in (line.a, line.b)]
        rows.append([line.what, *times, number(line.ratio, ".3f"), number(line.noise, ".3g"), line.verdict])
    parts.append(table("", ["median, ms", ">A", ">B", ">B / A", ">noise", "verdict of B"], rows))
    if found.facts:
        parts.append(table("", ["must not change", "A", "B", "verdict"], found.facts))
    return parts
