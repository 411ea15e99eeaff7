"""Tables about a machine: parts of the installation, versions, datasets, models."""

from typing import Any, Mapping, Sequence, Tuple

from .content import Table, table

_STATES = {True: "ok", False: "NO", None: "--"}


def findings(found: Sequence, caption: str = "") -> Table:
    """Make the table of `doctor.examine`'s findings. The state of an absent optional part is "--"."""
    rows = [[_STATES[f.ok], f.what, f.found, f.advice] for f in found]
    return table(caption, ["state", "what", "found", "what to do"], rows)


def versions(known: Mapping[str, str], caption: str = "") -> Table:
    return table(caption, ["what", "version"], [list(item) for item in known.items()])


def datasets(rows: Sequence[Sequence[str]]) -> Table:
    return table("", ["where", "folder", "test set", "training set"], rows)


def own_dataset(found) -> Table:
    side = found.images.shape[-1]
    row = [found.location, f"{len(found.images):,}", f"{side} x {side}", found.classes]
    return table("", ["file", ">images", "pixels", ">classes"], [row])


_KEPT = {"resized": "resized sets of images", "kernels": "built kernels", "graded": "unpacked submissions"}


def kept(folder: str, found: Sequence[Tuple[str, Sequence[int]]], bound: int, variable: str) -> Table:
    """Make a table of the user's cache: `found` has each folder's name and its entries' bytes."""
    rows = [[_KEPT[name], name, len(sizes), f"{sum(sizes) / 1e6:,.0f}"] for name, sizes in found]
    share = f"{sum(sum(sizes) for _, sizes in found) / 1e6:,.0f} MB of at most {bound / 1e6:,.0f} ({variable})"
    return table(f"kept in {folder}: {share}", ["what", "folder", ">number", ">MB"], rows)


def models(rows: Sequence[Sequence[Any]]) -> Table:
    return table("", ["model", "edition", ">correctness", "original weights", "what it is"], rows)
