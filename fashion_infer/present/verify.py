"""The checks of the shipped models."""

from typing import Sequence

from .content import Table, table


def checks(found: Sequence, caption: str = "") -> Table:
    """The table of `verification.verify`'s checks."""
    columns = ["model", "weights", "mode", "op", "backend", "data", ">n", ">expected", ">got", "verdict"]
    rows = [
        [c.model, c.weights, c.mode, c.operator, c.backend, c.source, c.n, c.expected, c.got, "ok" if c.ok else "WRONG"]
        for c in found
    ]
    return table(caption, columns, rows)
