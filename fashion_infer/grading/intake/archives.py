"""Copies the plain files of an archive or a folder to a new folder, within limits on their number and size."""

import errno
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Iterator, List, Tuple

MOST_FILES = 500
MOST_BYTES = 32 << 20  # largest number of bytes of all files together, unpacked
_MOST_ENTRIES = 5000  # largest number of entries, including folders and hidden files
_MOST_DEPTH = 12  # largest number of parts of a file's path
_PIECE = 1 << 16  # number of bytes that are copied at a time
# Exceptions by which libraries say that an archive is damaged, or of a kind that they do not support.
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError,
            NotImplementedError, RuntimeError, OverflowError, IndexError)  # fmt: skip
# Errors that are caused by this machine, not by a submission.
_MACHINES = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class Refused(Exception):
    """Raised for a submission that is refused because of its content; the message says why."""


def is_archive(path: Path) -> bool:
    try:
        return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)
    except (*_DAMAGED, OSError, ValueError):
        return True  # a damaged compressed file; unpacking it will report the damage


def unpack(source: Path, target: Path) -> List[Path]:
    """Copy the plain files of an archive or a folder into an empty folder; return their relative paths, sorted. Hidden
    files are left out. Refused for anything unsafe or damaged; OSError if this machine is the cause."""
    opened = _folder if source.is_dir() else _zip if zipfile.is_zipfile(source) else _tar
    found: List[Path] = []
    room = MOST_BYTES
    try:
        for name, content in opened(source):
            relative = _safe(name)
            if relative is None:
                continue
            if len(found) == MOST_FILES:
                raise Refused(f"it has more than {MOST_FILES} files")
            place = target / relative
            place.parent.mkdir(parents=True, exist_ok=True)
            with content, open(place, "xb") as out:
                room = _copy(content, out, room)
            found.append(relative)
    except _DAMAGED as error:
        raise Refused(f"the archive is damaged, or of a kind that is not supported: {error}") from None
    except FileExistsError as error:
        raise Refused(f"it contains {Path(error.filename).name} twice") from None
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) in _MACHINES:
            raise
        raise Refused(f"it cannot be unpacked: {getattr(error, 'strerror', None) or error}") from None
    return sorted(found)


def listed(folder: Path) -> List[Path]:
    found = []
    for name, content in _folder(folder):
        content.close()
        found.append(Path(name))
    return sorted(found)


def _safe(name: str):
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(f"the file name {name!r} is not UTF-8") from None
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or "\0" in name or (path.parts and ":" in path.parts[0]):
        raise Refused(f"{name[:200]!r} leads out of its folder")
    if len(path.parts) > _MOST_DEPTH:
        raise Refused(f"{name[:200]!r} is in too many folders (at most {_MOST_DEPTH - 1})")
    if any(part.startswith(".") or part == "__MACOSX" for part in path.parts):
        return None
    return Path(*path.parts)


def _copy(content: IO[bytes], out: IO[bytes], room: int) -> int:
    """Copy a file of at most `room` bytes; return how many bytes of `room` are left. Bytes are counted, because the
    archive's header may state a wrong number."""
    while True:
        piece = content.read(_PIECE)
        if not piece:
            return room
        room -= len(piece)
        if room < 0:
            raise Refused(f"it has more than {MOST_BYTES >> 20} MiB unpacked")
        out.write(piece)


def _few(entries: int) -> None:
    if entries > _MOST_ENTRIES:
        raise Refused(f"it has more than {_MOST_ENTRIES} entries")


def _zip(source: Path) -> Iterator[Tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(source) as archive:
        _few(len(archive.infolist()))
        for entry in archive.infolist():
            if entry.is_dir():
                continue
            mode = entry.external_attr >> 16
            if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
                raise Refused(f"{entry.filename!r} is not a plain file")
            yield entry.filename, archive.open(entry)


def _tar(source: Path) -> Iterator[Tuple[str, IO[bytes]]]:
    with tarfile.open(source) as archive:
        for count, entry in enumerate(archive, 1):
            _few(count)
            if entry.isdir():
                continue
            if not entry.isreg():
                raise Refused(f"{entry.name!r} is not a plain file")
            content = archive.extractfile(entry)
            if content is not None:  # always, because entries that are not plain files were refused above
                yield entry.name, content


def _folder(source: Path) -> Iterator[Tuple[str, IO[bytes]]]:
    """Yield the name and an open stream of each file in a folder. Links are refused, whatever they point to, because
    another person may be able to write to the folder."""
    count = 0
    for place, folders, files in os.walk(source):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in [*folders, *sorted(files)]:
            count += 1
            _few(count)
            path = Path(place) / name
            relative = path.relative_to(source).as_posix()
            if name.startswith("."):
                continue
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                continue
            if not stat.S_ISREG(mode):
                raise Refused(f"{relative!r} is not a plain file")
            yield relative, os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
