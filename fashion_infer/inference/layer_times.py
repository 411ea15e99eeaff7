"""The times of a network's layers: what the library logged by node number, and what MXNet took for its own nodes."""

from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..graph import symbol
from ..library.op_times import OpTime


class LayerTime(NamedTuple):
    """The time of one layer, or of the layers of one fused stage, over the slices of one pass. Times in seconds."""

    name: str  # of a fused stage: its nodes' names joined by "+"
    operator: str  # MXNet's name of it: "New", "Activation", ...; of a fused stage "New+Activation+..."
    kernel: Optional[str]  # the kernel that ran, for our operator; "fused" for a stage
    seconds: float  # for ours only the kernel; for MXNet's the whole node
    upload: float  # host to device and back, for ours on a GPU
    download: float
    log: Tuple[OpTime, ...] = ()  # what the library logged of it, slice by slice

    @property
    def custom(self) -> bool:
        """Whether our operator `New` is in it."""
        return symbol.CUSTOM_OPERATOR in self.operator.split("+")


def assemble(
    graph: symbol.Graph, records: Sequence[OpTime], of_mxnet: Sequence[int], seconds: Mapping[int, float]
) -> List[LayerTime]:
    """Put the times of one pass together.

    Parameters
    ----------
    graph
        The network, whose nodes' places are the numbers in the log.
    records
        The library's log of the pass.
    of_mxnet
        Numbers of the nodes that MXNet ran itself.
    seconds
        MXNet's times by node number, summed over the slices.

    Returns
    -------
    list of LayerTime
        In the order of the network. A stage is the chain of nodes along first inputs, from its first to its last.
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


def numbered(records: Sequence[OpTime], first: int, count: int) -> List[OpTime]:
    """The records of a graph of `count` nodes, which the log knows by the numbers from `first` on: by their places."""
    return [
        record._replace(first_node=record.first_node - first, last_node=record.last_node - first)
        for record in records
        if first <= record.first_node < first + count
    ]


def together(passes: Sequence[List[LayerTime]]) -> List[LayerTime]:
    """The times of one network's passes on several devices at the same time: of each layer the longest.

    A device without any work has no times of our layers, and may be among them.
    """
    found = []
    for layer in max(passes, key=len):
        same = [other for times in passes for other in times if other.name == layer.name]
        longest = {field: max(getattr(other, field) for other in same) for field in ("seconds", "upload", "download")}
        found.append(layer._replace(**longest, log=tuple(record for other in same for record in other.log)))
    return found


def _total(name: str, operator: str, records: Sequence[OpTime]) -> LayerTime:
    sums = (sum(getattr(r, field) for r in records) for field in ("seconds", "upload", "download"))
    return LayerTime(name, operator, records[0].kernel, *sums, tuple(records))  # type: ignore[call-arg]  # mypy gives a starred sequence any length
