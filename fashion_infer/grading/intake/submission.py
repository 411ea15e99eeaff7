"""Copies a submission (a file, a folder or an archive) to a separate folder, and finds its kernel file."""

import hashlib
import tempfile
from pathlib import Path
from typing import NamedTuple, Optional, Tuple

from ...errors import UsageError
from ...kernel_files.formats import KernelFile
from ...system import cache_limits
from . import archives, reading
from .archives import Refused

__all__ = ["Refused", "Submission", "check", "stage"]


class Submission(NamedTuple):
    """A submission that has been copied to a separate folder."""

    source: Path  # the path that the user gave
    folder: Path  # the folder of the copy
    files: Tuple[str, ...]  # paths of the files, relative to the folder
    digest: str  # SHA-256 of all files with their names, in hexadecimal
    kernel: KernelFile


def check(source: str) -> Path:
    """Return the path of a submission; raise UsageError if it does not exist."""
    path = Path(source)
    try:
        path.stat()
    except (OSError, ValueError):  # includes names that are too long or contain a zero byte
        raise UsageError(f"there is no submission {source}") from None
    return path


def stage(
    source: Path,
    room: Path,
    format: Optional[str] = None,
    backend: Optional[str] = None,
    file: Optional[str] = None,
    layers=None,
    unsandboxed: bool = False,
) -> Submission:
    """Copy a submission into a separate folder, and find its kernel file.

    Parameters
    ----------
    source
        A kernel file, a folder or an archive. A kernel file is copied with the files that it includes from its folder.
    room
        Parent of the folders of submissions. Each folder is named by the digest of its content, so that identical
        submissions share a folder and are built once.
    format, backend
        Required format and backend, as in `kernel_files.formats.recognise`.
    file
        The kernel file's path in a folder or an archive; None to search for it.
    layers, unsandboxed
        Layers of the sandbox in which the submission is read, and whether to read it without one. If `layers` is None,
        it is read in this process, which is only for trusted submissions.

    Raises
    ------
    Refused
        When the submission is unsafe to unpack, has no kernel, or exceeds the limits of reading.
    DeviceError
        When this machine cannot read it.
    """
    wanted = reading.Wanted(format, backend, file)
    with cache_limits.writing(room), tempfile.TemporaryDirectory(dir=room, prefix="stage-") as temporary:
        fresh = Path(temporary) / "files"
        fresh.mkdir()
        if layers is None:
            kernel = reading.read(source, fresh, wanted)
        else:
            kernel = reading.read_boxed(source, fresh, wanted, layers, unsandboxed)
        relative = kernel.path.relative_to(fresh.resolve() if layers is not None else fresh)
        names = tuple(path.as_posix() for path in archives.listed(fresh))
        digest = _digest(fresh, names)
        folder = room / digest[:32]
        cache_limits.make_room(sum((fresh / name).lstat().st_size for name in names), folder)
        try:
            fresh.rename(folder)
        except OSError:
            if not folder.is_dir():  # if the folder exists, an identical submission has been staged before
                raise
        cache_limits.use(folder)
    return Submission(source, folder, names, digest, kernel._replace(path=folder / relative))


def _digest(folder: Path, names: Tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for name in names:
        content = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        digest.update(f"{name}\0{content}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
