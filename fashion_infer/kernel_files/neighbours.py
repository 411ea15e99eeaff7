"""Files that belong to a kernel file: headers that it includes, and the sources of these headers."""

import re
from pathlib import Path
from typing import List, NamedTuple, Optional

from . import source

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n\0]+)[">]', re.MULTILINE)
_HEADERS = (".h", ".hpp", ".cuh", ".hh", ".inc")
# Header folders in the course's tree, and how deep below its root milestone files are, as in project/m3/req_0.
_COURSE, _MOST_LEVELS = "src/layer/custom", 4
_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")


class Neighbours(NamedTuple):
    included: List[Path]
    helpers: List[Path]  # also compiled: matmul.cu if matmul.h is included
    folders: List[Path]  # in the course's tree around the file, for the compiler's -I
    missing: List[str]  # names in #include lines that are not found among the user's files

    @property
    def all(self) -> List[Path]:
        return [*self.included, *self.helpers]


def of(path: Path, within: Optional[Path] = None) -> Neighbours:
    """Find the neighbours of a kernel file by following its #include lines; `within` bounds the search to a folder."""
    path = path.resolve()
    course = [folder / _COURSE for folder in list(path.parents)[:_MOST_LEVELS]]
    if within is not None:
        course = [folder for folder in course if within.resolve() in folder.parents]
    course = [folder for folder in course if folder.is_dir()][:1]
    included, helpers, waiting = [], [], [path]
    missing: List[str] = []
    while waiting:
        file = waiting.pop()
        for name in included_by(text_of(file)):
            for folder in (file.parent, path.parent, *course):
                try:
                    found = (folder / name).resolve()
                    inside = within is None or within.resolve() in found.parents
                    if inside and found.is_file() and found != path:
                        break
                except (OSError, ValueError, RuntimeError):  # a name too long, with a NUL, or in a cycle of links
                    continue
            else:
                missing.append(name)
                continue
            if found in included:
                continue
            included.append(found)
            waiting.append(found)
            for helper in _sources(found):
                if helper != path and helper not in helpers:
                    helpers.append(helper)
                    waiting.append(helper)
    # A source that another file includes is already in the program.
    helpers = sorted(helper for helper in helpers if helper not in included)
    return Neighbours(sorted(included), helpers, course, missing)


def included_by(text: str) -> List[str]:
    return _INCLUDE.findall(text)


def _sources(header: Path) -> List[Path]:
    if header.suffix not in _HEADERS:
        return []
    return [found for found in (header.with_suffix(suffix) for suffix in _SOURCES) if found.is_file()]


def text_of(path: Path) -> str:
    """Return a source's text; "" if it cannot be read."""
    try:
        return source.text(path.read_bytes())
    except OSError:
        return ""


def whole_text(path: Path, within: Optional[Path] = None) -> str:
    return "\n".join(map(text_of, [path, *of(path, within).all]))
