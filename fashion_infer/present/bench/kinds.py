"""The type for the text of one kind of benchmark, from which `pages` makes a page."""

from typing import Any, Callable, List, NamedTuple

from ..content import Part, Section

PEERS = "The columns x PEER say how many times faster than that peer a row is, by medians."


class BenchText(NamedTuple):
    """The parts of a page that differ from benchmark to benchmark, each as a function of the result."""

    title: Callable[[Any], str]
    chart: str  # title of the chart
    how: Callable[[Any], List[str]]  # explanation of the measurement and of the columns
    sections: Callable[[Any], List[Section]]
    closing: Callable[[Any], List[Part]]  # tables and texts after the last case on a terminal
    answer: Callable[[Any], List[str]]  # sentences at the end of the output on a terminal
