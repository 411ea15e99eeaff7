"""Makes a whole report: checks its folder, measures, draws the pictures, and replaces the folder or leaves it."""

import contextlib
import json
import os
import signal
import tempfile
from functools import partial
from pathlib import Path
from typing import Iterator, Tuple

from ..errors import DataError, UsageError
from ..present.report import pages
from ..system import paths
from ..system.files import vanishing
from ..system.interrupts import interrupt_deferred
from . import gather

LIST = "report.json"  # lists the files of the report in the folder; any other file there is not from a report
_KIND = "fashion-infer report"


def check(out: str) -> Path:
    """Return the absolute path of a folder that must be new, empty, or an earlier report; UsageError otherwise."""
    try:
        path = paths.expanded(out).resolve()
        here = paths.working_folder()
        if here is not None and path in (here, *here.parents):
            raise UsageError(f"cannot put the report in {out}, the current folder or one above it: name a new folder")
        if path.exists() and not path.is_dir():
            raise UsageError(f"cannot put the report in {out}: it is a file")
        if not path.parent.is_dir():
            raise UsageError(f"cannot put the report in {out}: {path.parent} does not exist")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise UsageError(f"cannot put the report in {out}: you may not write to {path.parent}")
        if path.exists():
            foreign = sorted({entry.name for entry in path.iterdir()} - _listed(path))
            if foreign:
                raise UsageError(
                    f"cannot replace {out}: it has {foreign[0]}, which is not from a report; name a new folder"
                )
    except OSError as error:
        raise UsageError(f"cannot put the report in {out}: {error.strerror}") from None
    except RuntimeError:  # raised for a cycle of links by Python up to 3.12
        raise UsageError(f"cannot put the report in {out}: its symbolic links lead in a circle") from None
    return path


def _listed(path):
    try:
        listed = json.loads((path / LIST).read_text(encoding="utf-8"))
        return {LIST, *listed["files"]} if listed["kind"] == _KIND else set()
    except (OSError, ValueError, KeyError, TypeError):
        return set()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a new folder that replaces `path` if the block succeeds, and is removed if not; DataError for files."""
    make = partial(tempfile.mkdtemp, dir=path.parent, prefix=f".{path.name}.")
    try:
        with vanishing(make) as temporary:
            new = Path(temporary, "new")
            new.mkdir()  # the umask decides who may read it; only the user may read the folder that mkdtemp made
            yield new
            listed = {"kind": _KIND, "files": sorted(entry.name for entry in new.iterdir())}
            (new / LIST).write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
            check(str(path))  # check again: other programs may have put files there during the measurements
            _put(new, path, Path(temporary, "old"))
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from None


@interrupt_deferred(signal.SIGTERM)
def _put(new: Path, path: Path, old: Path) -> None:
    """Rename an existing folder `path` to `old`, and `new` to `path`. If the second step fails, undo the first."""
    if path.exists():
        path.rename(old)
    try:
        new.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise


def make(
    out: str, request: gather.ReportRequest, tick: gather.Tick = lambda share, what: None
) -> Tuple[Path, gather.Measured]:
    """Make a report in a new or empty folder, or over an earlier one; return the page's path and what was measured."""
    path = check(out)
    measured = gather.measure(request, tick)
    gather.within(tick, request, "pages")
    with replacing(path) as new:
        page = pages.write(new, measured, out)
        for run in measured.runs:
            _write(new / f"run-{run.mode}.json", run.as_dict())
        for result in filter(None, (measured.convolutions, measured.networks)):
            _write(new / f"bench-{result.benchmark}.json", result.as_dict())
    return path / page, measured


def _write(path, content):
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
