"""What the pages of both benchmarks share: tables of measurements, what was left out, and the head of a page."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ...bench.records import LIMIT, OK, SKIPPED, WRONG, Case, Measurement, Result
from .. import kernel
from ..content import Column, Command, Missing, Part, Picture, Text, number, table


class Field(NamedTuple):
    """A column of a table of measurements, and what it holds. To add a column is to add one of these."""

    name: str  # with ">" before it for numbers
    cell: Callable[[Measurement, Case], Any]  # as `content.table` takes it
    detail: bool = False  # left out on a terminal


def figure(name: str, attribute: str, form: str) -> Field:
    """The column of one figure of a measurement."""
    return Field(f">{name}", lambda row, case: number(getattr(row, attribute), form))


def times(form: str) -> List[Field]:
    """The columns of minimum and median; a contender that is wrong is not timed, and says so there."""
    return [
        figure("min ms", "min_ms", form),
        Field(">median ms", lambda row, case: "WRONG" if row.status == WRONG else number(row.median_ms, form)),
    ]


def ratios(case: Case) -> List[Field]:
    """A column for each peer: how many times faster than the peer the row's contender is."""

    def ratio(peer: str) -> Field:
        return Field(f">x {peer}", lambda row, case: number(row.faster_than.get(peer), ".2f"))

    return [ratio(peer) for peer in case.peers]


ERROR = figure("error", "error", ".1e")


def name(row: Measurement, case: Case) -> str:
    """A contender's name, with what the reader must know of it."""
    if row.kind == LIMIT:
        return f"limit: {row.name}"
    return f"{row.name} (auto)" if row.name == case.auto else kernel.marked(row.title, row.findings)


def case_parts(case: Case, fields: List[Field]) -> List[Part]:
    """The table of a case's measurements, and a line for each that is wrong."""
    columns = [Column(f.name.lstrip(">"), f.name.startswith(">"), f.detail) for f in fields]
    rows = [[field.cell(row, case) for field in fields] for row in case.rows]
    skipped = [index for index, row in enumerate(case.rows) if row.status == SKIPPED]
    wrong = [Text(f"WRONG: {row.name}: {row.reason}") for row in case.rows if row.status == WRONG]
    return [table(case.title, columns, rows, skipped), *wrong]


def verdict(status: str, reason: str) -> str:
    """A status in words."""
    return {OK: "ok", WRONG: f"WRONG: {reason}"}.get(status, reason)


def not_compared(result: Result) -> Optional[str]:
    """Which peers were left out, and why; None where none was."""
    if not result.not_compared:
        return None
    return "not compared with " + ", ".join(f"{peer} ({why})" for peer, why in result.not_compared.items())


def notice(result: Result) -> Optional[str]:
    """`not_compared` for a terminal, where the reader can do something about it."""
    said = not_compared(result)
    return f"{said}; pip install 'fashion-infer[peers]'" if said and "not installed" in said else said


def left_out(result: Result) -> List[Part]:
    """The same as a part of a page."""
    said = not_compared(result)
    return [Missing(f"{said[0].upper()}{said[1:]}.")] if said else []


def head(result: Any, name: str, plot: Optional[str], as_json: Optional[str], how: List[Part], alt: str) -> List[Part]:
    """What a benchmark's page begins with.

    Parameters
    ----------
    name, plot, as_json
        Names of the page's own file, of the chart that it shows and of the JSON, without folders: all lie beside it.
    how
        How it was measured, and what the columns mean.
    alt
        What the chart shows.
    """
    files = [f"--{option} {file}" for option, file in (("json", as_json), ("plot", plot)) if file]
    writer = f"fashion-infer bench {result.benchmark}"
    parts: List[Part] = [
        Text(f"This page is written by {writer}, never by hand. The command, in this folder:"),
        Command(" ".join([result.command, *files, f"--markdown {name}"])),
        Text(f"{device(result.device)}. {'; '.join(f'{what}: {which}' for what, which in result.versions.items())}."),
        *how,
    ]
    return [*parts, *([Picture(plot, alt)] if plot else []), *left_out(result)]


def device(known: Dict[str, Any]) -> str:
    """The machine in words: a GPU, or a CPU with its instruction set and the threads in use."""
    if "capability" in known:
        capability = ".".join(map(str, known["capability"]))
        return (
            f"{known['name']} (compute capability {capability}, {known['multiprocessors']} multiprocessors, "
            f"{known['memory_total'] / 2**30:.0f} GiB), driver for CUDA {known['driver_version']}, "
            f"library built with CUDA {known['runtime_version']}"
        )
    return f"{known['name']}, {known['instructions']}, {known['threads']} threads"
