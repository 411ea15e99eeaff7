"""What a machine has: parts of the installation, versions, datasets, models."""

from typing import Any, Mapping, Sequence

from .content import Table, table

_STATES = {True: "ok", False: "NO", None: "--"}


def findings(found: Sequence, caption: str = "") -> Table:
    """The table of `doctor.examine`'s findings; "--" is something absent that need not be there."""
    rows = [[_STATES[f.ok], f.what, f.found, f.advice] for f in found]
    return table(caption, ["state", "what", "found", "what to do"], rows)


def versions(known: Mapping[str, str], caption: str = "") -> Table:
    """Names and versions."""
    return table(caption, ["what", "version"], [list(item) for item in known.items()])


def datasets(rows: Sequence[Sequence[str]]) -> Table:
    """Where Fashion-MNIST is looked for: what the place is, its folder, the states of test and training set."""
    return table("", ["where", "folder", "test set", "training set"], rows)


def models(rows: Sequence[Sequence[Any]]) -> Table:
    """The shipped models: name, edition, correctness, whether the original weights are here, summary."""
    return table("", ["model", "edition", ">correctness", "original weights", "what it is"], rows)
