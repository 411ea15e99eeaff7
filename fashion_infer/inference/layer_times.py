"""Times of a network's layers, from the library's log of node numbers and from MXNet's times of other nodes."""

import statistics
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..graph import symbol
from ..library.op_times import OpTime


class LayerResult(NamedTuple):
    """The times of a layer or fused stage in seconds, one per pass of a run, each summed over its slices."""

    name: str  # for a fused stage, its nodes' names joined by "+"
    operator: str  # MXNet's name: "New", "Activation", ...; for a fused stage "New+Activation+..."
    kernel: Optional[str]  # name of our operator's kernel; "fused" for a fused stage; None for an operator of MXNet
    custom: bool  # whether the layer or stage contains our operator `New`
    seconds: Tuple[float, ...]  # time of the kernel alone for our operator, of the whole node for MXNet's operators
    upload: Tuple[float, ...]  # time of copies to the device, for our operator on a GPU; else 0
    download: Tuple[float, ...]  # time of copies from the device, for our operator on a GPU; else 0
    log: Tuple[Tuple[OpTime, ...], ...] = ()  # the library's records, by pass and slice; not part of the JSON

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def layer_seconds(self) -> Tuple[float, ...]:
        """Times of prolog, forward and epilog together, one per pass, in seconds; empty for a kernel without them."""
        sums = tuple(sum(record.layer_seconds for record in records) for records in self.log)
        return sums if any(sums) else ()

    def as_dict(self) -> Dict[str, Any]:
        facts = {key: value for key, value in self._asdict().items() if key != "log"}
        return {**facts, "layer_seconds": self.layer_seconds} if self.layer_seconds else facts


def assemble(
    graph: symbol.Graph, records: Sequence[OpTime], of_mxnet: Sequence[int], seconds: Mapping[int, float]
) -> List[LayerResult]:
    """Return the times of one pass in network order; records and times are by the nodes' indices."""
    nodes = symbol.computing(graph)
    times = {}
    for first, last in dict.fromkeys((record.first_node, record.last_node) for record in records):
        chain = [nodes[number] for number in symbol.chain(graph, first, last)]
        name, operator = ("+".join(words) for words in zip(*chain))
        times[first] = _total(name, operator, [r for r in records if (r.first_node, r.last_node) == (first, last)])
    for number, (name, operator) in nodes.items():
        if number not in times and number in of_mxnet:
            times[number] = LayerResult(name, operator, None, False, (seconds.get(number, 0.0),), (0.0,), (0.0,), ((),))
    return [times[number] for number in sorted(times)]


def merge(passes: Sequence[Sequence[LayerResult]]) -> List[LayerResult]:
    fields = ("seconds", "upload", "download", "log")
    return [
        times[0]._replace(**{field: tuple(getattr(time, field)[0] for time in times) for field in fields})
        for times in zip(*passes)
    ]


def _total(name: str, operator: str, records: Sequence[OpTime]) -> LayerResult:
    seconds, upload, download = (
        (sum(getattr(record, field) for record in records),) for field in ("seconds", "upload", "download")
    )
    custom = symbol.CUSTOM_OPERATOR in operator.split("+")
    return LayerResult(name, operator, records[0].kernel, custom, seconds, upload, download, (tuple(records),))
