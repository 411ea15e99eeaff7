"""Formats in which verdicts are written, for people and for other programs."""

from typing import Callable, Dict, NamedTuple

from ..verdict import GradeVerdict, as_json
from . import gradescope, junit, prairielearn, text


class Format(NamedTuple):
    write: Callable[[GradeVerdict], str]  # converts a verdict to the text of a file
    file: str  # name of the file in a folder of results


FORMATS: Dict[str, Format] = {
    "text": Format(text.write, "verdict.txt"),
    "json": Format(as_json, "verdict.json"),
    "gradescope": Format(gradescope.write, "results.json"),
    "prairielearn": Format(prairielearn.write, "results.json"),
    "junit": Format(junit.write, "junit.xml"),
}
