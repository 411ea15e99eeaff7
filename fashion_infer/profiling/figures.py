"""The figures of a profile, for display and for its JSON."""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..system.process import Usage
from . import overhead, tables, throughput
from .overhead import Overhead
from .tables import ProfileTable
from .throughput import Throughput


class Figures(NamedTuple):
    """All figures of a profile. They do not include its records, which only a timeline needs."""

    tables: List[ProfileTable]  # activities of the GPU or CPU, then calls into CUDA or MXNet
    usage: Optional[Usage] = None  # resources that the program used until the end of the profiled passes
    throughput: Sequence[Throughput] = ()
    ceilings: Optional[Dict[str, float]] = None  # see `bench.ceilings.measure`
    no_ceilings: Optional[str] = None  # why there are no ceilings
    overhead: Sequence[Overhead] = ()

    def as_dict(self) -> Dict[str, Any]:
        """Return the figures as a dictionary for JSON. Times in tables are in nanoseconds, all others in seconds."""
        return {
            "tables": [tables.as_dict(table) for table in self.tables],
            "usage": self.usage and self.usage._asdict(),
            "throughput": [throughput.as_dict(t) for t in self.throughput],
            "ceilings": self.ceilings,
            "no_ceilings": self.no_ceilings,
            "overhead": [overhead.as_dict(o) for o in self.overhead],
        }


def from_dict(data: Dict[str, Any]) -> Figures:
    """Restore figures from the dictionary of `as_dict`; raise KeyError or TypeError for anything else."""
    return Figures(
        tables=[ProfileTable(table["title"], _each(tables.Row, table["rows"])) for table in data["tables"]],
        usage=Usage(**data["usage"]),
        throughput=_each(Throughput, data["throughput"]),
        ceilings=data["ceilings"],
        no_ceilings=data["no_ceilings"],
        overhead=_each(Overhead, data["overhead"]),
    )


def _each(kind, rows):
    """Create a named tuple of type `kind` from each dictionary, ignoring keys that are not fields."""
    return [kind(*(row[field] for field in kind._fields)) for row in rows]
