"""Formats of other programs for verdicts: one function per format converts a verdict to text."""

from typing import Callable, Dict, NamedTuple

from ..verdict import GradeVerdict, as_json
from . import gradescope, junit, prairielearn, text


class Format(NamedTuple):
    """A way to write a verdict."""

    write: Callable[[GradeVerdict], str]
    file: str  # name of its file in a folder of results


FORMATS: Dict[str, Format] = {
    "text": Format(text.write, "verdict.txt"),
    "json": Format(as_json, "verdict.json"),
    "gradescope": Format(gradescope.write, "results.json"),
    "prairielearn": Format(prairielearn.write, "results.json"),
    "junit": Format(junit.write, "junit.xml"),
}
