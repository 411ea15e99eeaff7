"""Times of a network's layers, from the library's log of node numbers and from MXNet's times of other nodes."""

from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..graph import symbol
from ..library.op_times import OpTime


class LayerTime(NamedTuple):
    """The time of one layer, or of one fused stage, in one pass: the sum over the pass's slices, in seconds."""

    name: str  # for a fused stage, its nodes' names joined by "+"
    operator: str  # MXNet's name: "New", "Activation", ...; for a fused stage "New+Activation+..."
    kernel: Optional[str]  # the kernel that ran, for our operator; "fused" for a fused stage
    seconds: float  # time of the kernel alone for our operator, of the whole node for MXNet's operators
    upload: float  # time of copies from host to device, for our operator on a GPU; else 0
    download: float  # time of copies from device to host, for our operator on a GPU; else 0
    log: Tuple[OpTime, ...] = ()  # the library's records, slice by slice

    @property
    def custom(self) -> bool:
        """Whether the layer or stage contains our operator `New`."""
        return symbol.CUSTOM_OPERATOR in self.operator.split("+")


def assemble(
    graph: symbol.Graph, records: Sequence[OpTime], of_mxnet: Sequence[int], seconds: Mapping[int, float]
) -> List[LayerTime]:
    """Return the times of one pass in network order, in seconds; a stage's nodes form a chain along first inputs.

    The numbers of `records`, `of_mxnet` (nodes that MXNet ran itself) and `seconds` (their times) are the node indices.
    """
    nodes = symbol.computing(graph)
    times = {}
    for first, last in dict.fromkeys((record.first_node, record.last_node) for record in records):
        chain = [nodes[number] for number in symbol.chain(graph, first, last)]
        name, operator = ("+".join(words) for words in zip(*chain))
        times[first] = _total(name, operator, [r for r in records if (r.first_node, r.last_node) == (first, last)])
    for number, (name, operator) in nodes.items():
        if number not in times and number in of_mxnet:
            times[number] = LayerTime(name, operator, None, seconds.get(number, 0.0), 0.0, 0.0)
    return [times[number] for number in sorted(times)]


def of_graph(records: Sequence[OpTime], first: int, count: int) -> List[OpTime]:
    """Return the records of a graph whose `count` nodes are numbered from `first` in the log, renumbered from 0."""
    return [
        record._replace(first_node=record.first_node - first, last_node=record.last_node - first)
        for record in records
        if first <= record.first_node < first + count
    ]


def of_slowest_devices(passes: Sequence[List[LayerTime]]) -> List[LayerTime]:
    """Combine simultaneous passes on several devices: a layer's time is the longest. A device may have had no work."""
    found = []
    for layer in max(passes, key=len):
        same = [other for times in passes for other in times if other.name == layer.name]
        longest = {field: max(getattr(other, field) for other in same) for field in ("seconds", "upload", "download")}
        found.append(layer._replace(**longest, log=tuple(record for other in same for record in other.log)))
    return found


def _total(name: str, operator: str, records: Sequence[OpTime]) -> LayerTime:
    sums = (sum(getattr(r, field) for r in records) for field in ("seconds", "upload", "download"))
    return LayerTime(name, operator, records[0].kernel, *sums, tuple(records))  # type: ignore[call-arg]  # mypy does not know the length of `sums`
