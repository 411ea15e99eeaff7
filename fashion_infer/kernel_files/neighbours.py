"""The files beside a kernel file that belong to it: headers that it includes, and the sources of these headers."""

import re
from pathlib import Path
from typing import List, NamedTuple, Optional

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
_HEADERS = (".h", ".hpp", ".cuh", ".hh", ".inc")
# Where the course's tree has its headers, and how far below its root files of milestones lie, as project/m3/req_0.
_COURSE, _MOST_LEVELS = "src/layer/custom", 4
_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")


class Neighbours(NamedTuple):
    """What a build reads beside the file itself."""

    included: List[Path]
    helpers: List[Path]  # compiled as well: matmul.cu where matmul.h is included
    folders: List[Path]  # of the course's tree around the file, for the compiler's -I
    missing: List[str]  # names of #include lines that lead to no file of the user's

    @property
    def all(self) -> List[Path]:
        """Both kinds."""
        return [*self.included, *self.helpers]


def of(path: Path, within: Optional[Path] = None) -> Neighbours:
    """The neighbours of a kernel file, found by following its #include lines.

    An #include of a macro is not followed; a header in another folder is found where the path in the line leads.

    Parameters
    ----------
    path
        The kernel file.
    within
        A folder outside of which nothing is looked at, for a file that is not trusted; None for anywhere.
    """
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
                except (OSError, ValueError, RuntimeError):  # a name too long, with a NUL, or of links in a circle
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
    # A source that another file includes is in the program already.
    helpers = sorted(helper for helper in helpers if helper not in included)
    return Neighbours(sorted(included), helpers, course, missing)


def included_by(text: str) -> List[str]:
    """What the #include lines of a source name."""
    return _INCLUDE.findall(text)


def _sources(header: Path) -> List[Path]:
    if header.suffix not in _HEADERS:
        return []
    return [found for found in (header.with_suffix(suffix) for suffix in _SOURCES) if found.is_file()]


def text_of(path: Path) -> str:
    """A source's text; "" where it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
