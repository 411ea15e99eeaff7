"""Kinds of findings, and their consequences."""

from typing import Dict, NamedTuple

REFUSED, MARKED = "refused", "marked"
_MOST = 1000  # largest number of characters of a finding's text


class Kind(NamedTuple):
    """A kind of finding."""

    # The consequence: REFUSED (no points for the affected checks), or MARKED (reported only, except for what `advice`
    # says).
    follows: str
    short: str  # description in a few words
    advice: str  # advice to the student


KINDS: Dict[str, Kind] = {
    "broken": Kind(REFUSED, "it did not run to its end", "run `fashion-infer kernel check FILE` to see where it ends"),
    "wrong": Kind(REFUSED, "the output is wrong", "run `fashion-infer kernel check FILE` until every layer is right"),
    "precision": Kind(REFUSED, "not float32", "this rubric requires float32: use neither half precision nor TF32"),
    "call number": Kind(
        REFUSED, "right in one call and wrong in another", "compute the output of each call from that call's inputs"
    ),
    "inputs changed": Kind(REFUSED, "it changes its inputs", "leave data and weights as they are"),
    "guard zones": Kind(REFUSED, "it writes outside of the output", "write nothing outside of the output"),
    "work after": Kind(REFUSED, "it still works after the call", "finish all work before forward returns"),
    "too fast": Kind(REFUSED, "faster than possible", "compute and write the output within forward"),
    "work before": Kind(
        MARKED, "it works before forward", "do the work in forward; until you do, Layer Time counts instead of Op Time"
    ),
    "clocks": Kind(
        MARKED, "its clock differs from the referee's", "do nothing if the machine was busy: the referee's clock counts"
    ),
}


def plain(text: str) -> str:
    """Return text that may come from a submission as one line without control characters, which a terminal can show."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(line.split())[:_MOST]


class Finding(NamedTuple):
    """An observation of the referee about a submission that has a consequence."""

    kind: str  # a name in KINDS
    where: str  # the layer and the number of images; "" for the whole submission
    text: str

    @property
    def follows(self) -> str:
        """Consequence of the finding: REFUSED or MARKED."""
        return KINDS[self.kind].follows

    @property
    def advice(self) -> str:
        """Advice to the student, as text."""
        return KINDS[self.kind].advice

    @property
    def short(self) -> str:
        """Place and kind of the finding, in a few words."""
        return f"{self.where}: {KINDS[self.kind].short}" if self.where else KINDS[self.kind].short
