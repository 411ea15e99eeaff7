"""Records of MXNet's nodes and of calls into its C API, from its own profiler; and of the stages in fused nodes."""

import json
import os
import re
import tempfile
from typing import Any, Dict, Iterable, Iterator, List, Sequence, Tuple

from .. import _mxnet
from ..errors import DeviceError
from ..library.op_times import OpTime
from . import records
from .records import Record

NETWORK = "_fashion_infer_network"  # the registered name of the subgraph operator, which runs the fused stages
_API = "MXNET_C_API"
_LANE = "stages, summed over the slices and laid end to end"


class MXNetSource:
    """MXNet's profiler. Its records lack the layers' names, which `with_layer_names` adds."""

    def __init__(self):
        self._mx = _mxnet.load()
        self._folder = tempfile.TemporaryDirectory(prefix="fashion-infer-")
        self._path = os.path.join(self._folder.name, "mxnet.json")
        # By default, the profiler starts a thread that dumps every second, and then refuses a second set_config().
        off = dict.fromkeys(("profile_memory", "aggregate_stats", "continuous_dump"), False)
        on = dict.fromkeys(("profile_symbolic", "profile_imperative", "profile_api"), True)
        self._mx.profiler.set_config(filename=self._path, **on, **off)

    def start(self) -> None:
        self._mx.profiler.set_state("run")

    def stop(self) -> None:
        """Wait for MXNet's pending work, and stop recording."""
        self._mx.nd.waitall()
        self._mx.profiler.set_state("stop")

    def take(self) -> List[Record]:
        """Return and clear the records; raise DeviceError if MXNet silently failed to write all of them."""
        self._mx.profiler.set_state("run")  # the profiler dumps only while it runs
        with _mxnet.quiet():
            self._mx.profiler.dump(finished=True)
        self._mx.profiler.set_state("stop")
        try:
            with open(self._path) as stream:
                return parse(stream.read())
        except (OSError, ValueError):
            room = os.path.dirname(self._folder.name)
            raise DeviceError(
                f"MXNet's profile is truncated: make room in {room}, or set TMPDIR to another folder"
            ) from None

    def close(self) -> None:
        self._folder.cleanup()


def parse(text: str) -> List[Record]:
    """Parse a dump in the Chrome trace format. Except in its first dump, MXNet 1.9.1 begins the events with a comma."""
    events = json.loads(re.sub(r"\[\s*,", "[", text, count=1))["traceEvents"]
    found: List[records.Record] = []
    threads: Dict[Any, int] = {}
    for begin, end in _pairs(events):
        number = threads.setdefault(begin["tid"], len(threads) + 1)
        kind = records.API if begin.get("cat") == _API else records.NODE
        span = 1000 * (end["ts"] - begin["ts"])
        found.append(Record(kind, begin["name"], 1000 * begin["ts"], span, f"MXNet, thread {number}"))
    return found


def _pairs(events: Sequence[Dict[str, Any]]) -> Iterator[Tuple[Dict, Dict]]:
    """Yield (begin event, end event). MXNet writes operators' events as B/E and b/e, C API calls only as b/e."""
    open_ones: Dict[Tuple, List[Dict]] = {}
    for event in events:
        phase = event["ph"]
        wanted = "be" if event.get("cat") == _API else "BE"
        if phase not in wanted:
            continue
        waiting = open_ones.setdefault((event["name"], event.get("cat"), event["tid"]), [])
        if phase == wanted[0]:
            waiting.append(event)
        elif waiting:  # work that began before the profiler was on has no beginning, and is left out
            yield waiting.pop(), event


def with_layer_names(nodes: Sequence[Record], layers: Sequence[Tuple[str, str]]) -> List[Record]:
    """Add layers' names to those of records: the second "Activation" becomes "Activation(activation1)".

    `layers` are pairs (name, operator), in the order in which the layers run in each pass.
    """
    names: Dict[str, List[str]] = {}
    for name, operator in layers:
        names.setdefault(operator, []).append(name)
    seen: Dict[str, int] = {}
    counts = {operator: sum(node.name == operator for node in nodes) for operator in names}
    renamed = []
    for node in sorted(nodes, key=lambda node: node.start):
        own = names.get(node.name, [])
        if own and counts[node.name] % len(own) == 0:
            turn = seen.get(node.name, 0)
            seen[node.name] = turn + 1
            node = node._replace(name=f"{node.name}({own[turn % len(own)]})")
        renamed.append(node)
    return renamed


def stage_records(log: Sequence[Tuple[str, OpTime]], passes: Sequence[Record]) -> List[Record]:
    """Return STAGE records of forward passes, from the library's log (oldest first) and MXNet's subgraph records.

    Besides the stages, there are "[upload]", "[download]", and "[between the stages]" for the rest of a pass.
    """
    laid = []
    for each, node in zip(_split(log), sorted(passes, key=lambda r: r.start)):
        at = node.start
        for layer, op in each:
            for name, seconds in (("[upload]", op.upload), (layer, op.seconds), ("[download]", op.download)):
                length = round(1e9 * seconds)
                if length or name == layer:
                    laid.append(Record(records.STAGE, name, at, length, _LANE))
                at += length
        if node.end > at:
            laid.append(Record(records.STAGE, "[between the stages]", at, node.end - at, _LANE))
    return laid


def _split(log: Iterable[Tuple[str, OpTime]]) -> List[List[Tuple[str, OpTime]]]:
    """Split the log into passes: a new pass begins when a stage's name repeats."""
    passes: List[List[Tuple[str, OpTime]]] = []
    for layer, op in log:
        if not passes or any(layer == other for other, _ in passes[-1]):
            passes.append([])
        passes[-1].append((layer, op))
    return passes
