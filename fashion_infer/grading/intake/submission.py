"""Copies a submission (a file, a folder or an archive) to a separate folder, and finds its kernel file."""

import hashlib
import tempfile
from pathlib import Path
from typing import NamedTuple, Optional, Tuple

from ...errors import UsageError
from ...kernel_files.formats import KernelFile
from ...system import cache_limits
from ..sandbox import Layers
from . import archives, reading
from .archives import Refused

__all__ = ["Refused", "Submission", "check", "stage"]

_ANY = reading.Wanted()


class Submission(NamedTuple):
    source: Path  # the path that the user gave
    folder: Path  # the folder of the copy
    files: Tuple[str, ...]  # paths of the files, relative to the folder
    digest: str  # SHA-256 of all files with their names, in hexadecimal
    kernel: KernelFile


def check(source: str) -> Path:
    path = Path(source)
    try:
        path.stat()
    except (OSError, ValueError):  # includes names that are too long or contain a zero byte
        raise UsageError(f"there is no submission {source}") from None
    return path


def stage(source: Path, room: Path, wanted: reading.Wanted = _ANY, layers: Optional[Layers] = None) -> Submission:
    """Copy a submission into a folder of `room`, named by its digest, and find its kernel file. Without `layers`, it is
    read in this process, for trusted files only. Refused if it is unsafe to unpack, has no kernel as required, or
    exceeds the limits of reading; DeviceError if this machine fails."""
    with cache_limits.writing(room), tempfile.TemporaryDirectory(dir=room, prefix="stage-") as temporary:
        fresh = Path(temporary) / "files"
        fresh.mkdir()
        if layers is None:
            kernel = reading.read(source, fresh, wanted)
        else:
            kernel = reading.read_boxed(source, fresh, wanted, layers)
        relative = kernel.path.relative_to(fresh.resolve() if layers is not None else fresh)
        names = tuple(path.as_posix() for path in archives.listed(fresh))
        digest = _digest(fresh, names)
        folder = room / digest[:32]
        if not folder.is_dir():
            fresh.rename(folder)
    return Submission(source, folder, names, digest, kernel._replace(path=folder / relative))


def _digest(folder: Path, names: Tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for name in names:
        content = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        digest.update(f"{name}\0{content}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
