"""The type `BenchText`, which holds the text for one kind of benchmark. `pages` makes pages from it."""

from typing import Any, Callable, List, NamedTuple

from ..content import Part, Section

PEERS = "A column x PEER says how many times faster than that peer a row is, by their medians."


class BenchText(NamedTuple):
    """The parts of a page that differ from benchmark to benchmark. Each function takes the benchmark's result."""

    title: Callable[[Any], str]
    chart: str  # title of the chart
    how: Callable[[Any], List[str]]  # explanation of the measurement and of the columns
    sections: Callable[[Any], List[Section]]
    closing: Callable[[Any], List[Part]]  # tables and texts after the last case on a terminal
    answer: Callable[[Any], List[str]]  # sentences at the end of the output on a terminal
