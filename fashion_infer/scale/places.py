"""Finds files of inputs and results. A place is a path on this machine, or a URI of PyArrow (s3://, gs://)."""

import fnmatch
import os
import posixpath
from typing import Iterator, List, NamedTuple, Tuple
from urllib.parse import quote

import pyarrow
from pyarrow import fs

from ..errors import DataError
from ..system import paths
from ..system.text import one_line

_WILD = "*?["


class FileEntry(NamedTuple):
    name: str  # name for messages, which begins with the path that the user gave
    place: str  # absolute path, or URI, that other processes can open
    size: int  # bytes
    modified: int  # nanoseconds since 1970; 0 if the filesystem does not report it


def is_uri(name: str) -> bool:
    return "://" in name


def absolute(name: str) -> str:
    return name if is_uri(name) else os.path.abspath(paths.expanded(name))


def filesystem(place: str) -> Tuple[fs.FileSystem, str]:
    if not is_uri(place):
        return fs.LocalFileSystem(), place
    try:
        return fs.FileSystem.from_uri(place)
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise DataError(f"cannot open {place} ({one_line(error)})") from None


def joined(place: str, name: str) -> str:
    """Return the place of the file `name` in the folder `place`. A URI's options, after its `?`, stay at the end."""
    if not is_uri(place):
        return os.path.join(place, name)
    base, mark, query = place.partition("?")
    return f"{base.rstrip('/')}/{quote(name)}{mark}{query}"


def files(name: str) -> Tuple[List[FileEntry], bool]:
    """Return the sorted visible files of a path, a folder or a pattern, and False for a folder; DataError if none."""
    place = absolute(name)
    try:
        # In a URI, `?` begins the options. In a path, it stands for any character, unless a file has exactly that name.
        wild = any(sign in posixpath.basename(place.split("?")[0]) for sign in "*[")
        if not is_uri(place):
            wild = any(sign in os.path.basename(place) for sign in _WILD) and not os.path.lexists(place)
        found = list(_matching(name, place) if wild else _below(name, place))
    except (OSError, ValueError, pyarrow.ArrowException) as error:
        raise DataError(f"cannot read {name} ({one_line(error)})") from None
    if not found:
        raise DataError(f"no file matches {name}" if wild else f"{name} has no files")
    return found, wild or found[0].place == place


def _below(name: str, place: str) -> Iterator[FileEntry]:
    system, path = filesystem(place)
    info = system.get_file_info(path)
    if info.type == fs.FileType.NotFound:
        raise DataError(f"there is no file or folder {name}")
    if info.type == fs.FileType.Directory:
        yield from _listed(name, place, system, path, True, "*")
    elif info.type == fs.FileType.File:
        yield FileEntry(name, place, info.size, info.mtime_ns or 0)
    else:
        raise DataError(f"{name} is neither a file nor a folder")


def _matching(name: str, place: str) -> Iterator[FileEntry]:
    base, mark, query = place.partition("?") if is_uri(place) else (place, "", "")
    folder, pattern = posixpath.split(base)
    system, path = filesystem(folder + mark + query)
    yield from _listed(posixpath.dirname(name.partition("?")[0]), folder + mark + query, system, path, False, pattern)


def _listed(name: str, place: str, system: fs.FileSystem, path: str, deep: bool, pattern: str) -> Iterator[FileEntry]:
    for info in sorted(system.get_file_info(fs.FileSelector(path, recursive=deep)), key=lambda info: info.path):
        below = posixpath.relpath(info.path, path)
        hidden = any(part[0] in "._" for part in below.split("/"))
        if info.type == fs.FileType.File and not (deep and hidden) and fnmatch.fnmatchcase(below, pattern):
            yield FileEntry(joined(name, below), joined(place, below), info.size, info.mtime_ns or 0)
