"""SVG with less text and the same picture: what many elements repeat is said once, by a group, a symbol or a class."""

import collections
import hashlib
import itertools
import re
from typing import Dict, List, Match

_NUMBERS = re.compile(r'(?<= )(?:d|x|y)="[^"]*"')
_SYMBOL = re.compile(r'<path id="([^"]*)" d="([^"]*)" style="([^"]*)"/>')
_USE = re.compile(r'(<use xlink:href="#([^"]*)"[^>]*?) style="([^"]*)"/>')
_UNSEEN = re.compile(r'<path d="[^"]*"(?: clip-path="[^"]*")? style="fill: none"/>\n')
_ELEMENT = re.compile(r"<(?:path|use)( [^>]*)/>|<text( [^>]*)>[^\n]*</text>")
_SHARED = re.compile(r' (?:clip-path|style)="[^"]*"')
_STYLE = re.compile(r'(?m)^(<[a-z][^>]*?) style="([^"]*)"')
_LEVEL, _UPRIGHT = (re.compile(rf'M([\d.]+) ([\d.]+)L{end}(?=[MLz"])') for end in (r"([\d.]+) \2", r"\1 ([\d.]+)"))
_PATHS = re.compile(r'<path d="[^"]*"/>\n(?:<path d="[^"]*"/>\n)+')
_TICKS = re.compile(r"(?:<use [^>]*/>\n<text [^>]*>[^\n]*</text>\n){2,}")
_SEAM = re.compile(r'(<g clip-path="[^"]*">\n)((?:<use [^>]*/>\n)+)</g>\n\1')


def smaller(text: str) -> str:
    """The SVG, of which every element begins a line, in less text. Of what it gave it makes the same again."""
    text = _NUMBERS.sub(lambda found: re.sub(r'(?<=\d)\.0(?!\d)|\s+(?=")', "", found.group()), text)
    text = _UNSEEN.sub("", text)
    text = _TICKS.sub(_apart, _with_styled_symbols(text))
    lines: List[str] = []
    for shared, run in itertools.groupby(text.split("\n"), _shared):
        lines += _grouped(shared, list(run))
    text = "\n".join(lines)
    seams = 1
    while seams:
        text, seams = _SEAM.subn(r"\1\2", text)
    text = _UPRIGHT.sub(r"M\1 \2V\3", _LEVEL.sub(r"M\1 \2H\3", text))
    return _PATHS.sub(lambda found: found.group().replace('"/>\n<path d="', ""), text)


def with_classes(text: str) -> str:
    """The SVG, of which every element begins a line, with a class for a style that three elements or more have.

    A class's name is a hash of its style, so that several charts of one page have none for two styles. Its rule goes to
    the end of the first <style>; without one the text stays as it is.
    """
    styles = collections.Counter(style for _, style in _STYLE.findall(text))
    names = {style: "s" + hashlib.sha256(style.encode()).hexdigest()[:5] for style, n in styles.items() if n >= 3}
    if "</style>" not in text:
        return text

    def classed(found: Match) -> str:
        element, style = found.groups()
        return f'{element} class="{names[style]}"' if style in names else found.group()

    rules = "".join(f" .{name} {{ {style} }}" for style, name in names.items())
    return _STYLE.sub(classed, text).replace("</style>", f"{rules}</style>", 1)


def _apart(ticks: Match) -> str:
    """Ticks that take turns with their labels: first the ticks, then the labels. None lies on another."""
    lines = ticks.group().splitlines(keepends=True)
    return "".join(lines[::2] + lines[1::2])


def _with_styled_symbols(text: str) -> str:
    """A symbol that is always used with one style has it itself."""
    styles: Dict[str, set] = {}
    for found in _USE.finditer(text):
        styles.setdefault(found.group(2), set()).add(found.group(3))
    defined = {found.group(1) for found in _SYMBOL.finditer(text)}
    moved = {name: min(some) for name, some in styles.items() if len(some) == 1 and _may_move(min(some))}
    moved = {name: style for name, style in moved.items() if name in defined}

    def symbol(found: Match) -> str:
        name, d, own = found.groups()
        both = {**_declarations(moved.get(name, "")), **_declarations(own)}
        style = "; ".join(f"{key}: {value}" for key, value in both.items())
        return f'<path id="{name}" d="{d}" style="{style}"/>'

    text = _USE.sub(lambda found: f"{found.group(1)}/>" if found.group(2) in moved else found.group(), text)
    return _SYMBOL.sub(symbol, text)


def _declarations(style: str) -> Dict[str, str]:
    return dict(one.split(": ", 1) for one in style.split("; ") if one)


def _may_move(attributes: str) -> bool:
    """Whether what is around elements, or is used, may have these in their place: two opacities would multiply."""
    return "opacity" not in attributes


def _shared(line: str) -> str:
    """What of an element a group around it can say."""
    found = _ELEMENT.fullmatch(line)
    attributes = (found.group(1) or found.group(2)) if found else ""
    # A clip path lies where the element is moved to; an element with a name is used elsewhere.
    if not _may_move(attributes) or " id=" in attributes or ("clip-path=" in attributes and "transform=" in attributes):
        return ""
    return "".join(_SHARED.findall(attributes))


def _grouped(shared: str, run: List[str]) -> List[str]:
    if not shared or len(run) == 1:
        return run
    return [f"<g{shared}>", *(_bare(line) for line in run), "</g>"]


def _bare(line: str) -> str:
    """The element without what its group says; its text stays as it is."""
    end = line.index(">")
    return _SHARED.sub("", line[:end]) + line[end:]
