"""Writes verdicts as JUnit's XML, for continuous integration: a suite per submission, a test case per check."""

import re
import xml.etree.ElementTree as ElementTree

from ..verdict import FAILED, GradeVerdict
from . import text

# Characters that XML 1.0 cannot contain. They are replaced, because a submission may print them.
_IMPOSSIBLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(verdict: GradeVerdict) -> str:
    """Return the document. A check without all of its points is a failure, or an error if the machine failed."""
    marks = verdict.marks.marks
    failed = [mark for mark in marks if not mark.passed]
    broken = verdict.status == FAILED
    suite = ElementTree.Element(
        "testsuite",
        name=_clean(verdict.name),
        tests=str(len(marks)),
        errors=str(len(failed) if broken else 0),
        failures=str(0 if broken else len(failed)),
        skipped="0",
        time=f"{verdict.seconds:.3f}",
        timestamp=verdict.when[:-1],
    )
    for mark in marks:
        case = ElementTree.SubElement(
            suite, "testcase", classname=_clean(verdict.name), name=_clean(mark.name), time="0.000"
        )
        if not mark.passed:
            said = f"{mark.points:g} of {mark.out_of:g} points: {text.message(verdict, mark.message)}"
            ElementTree.SubElement(case, "error" if broken else "failure", message=_clean(said), type=mark.kind)
    ElementTree.SubElement(suite, "system-out").text = _clean(text.for_student(verdict))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _clean(words: str) -> str:
    return _IMPOSSIBLE.sub("\ufffd", words)
