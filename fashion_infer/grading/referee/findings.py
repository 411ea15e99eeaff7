"""Kinds of findings, and their consequences."""

from typing import Dict, NamedTuple

REFUSED, MARKED = "refused", "marked"
_MOST = 1000  # characters of a finding's text


class Kind(NamedTuple):
    """A kind of finding."""

    follows: str  # REFUSED (no points for what it touches) or MARKED (told, and counted as `advice` says)
    short: str
    advice: str  # advice to the student


KINDS: Dict[str, Kind] = {
    "broken": Kind(REFUSED, "it did not run to its end", "run `fashion-infer kernel check FILE` to see where it ends"),
    "wrong": Kind(REFUSED, "the output is wrong", "run `fashion-infer kernel check FILE` until every layer is right"),
    "precision": Kind(REFUSED, "not float32", "this rubric asks for float32: no half precision, no TF32"),
    "call number": Kind(
        REFUSED, "right in one call and wrong in another", "compute every call again, from the inputs that it gets"
    ),
    "inputs changed": Kind(REFUSED, "it changes its inputs", "leave data and weights as they are"),
    "guard zones": Kind(REFUSED, "it writes outside of the output", "write nothing outside of the output"),
    "work after": Kind(REFUSED, "it works on after the call", "be done when forward returns"),
    "too fast": Kind(REFUSED, "faster than possible", "compute and write the output within forward"),
    "work before": Kind(
        MARKED, "it works before forward", "do the work in forward: until then Layer Time counts in Op Time's place"
    ),
    "clocks": Kind(MARKED, "its clock is not the referee's", "nothing, if the machine was busy: the referee's counts"),
}


def plain(text: str) -> str:
    """Text that a submission may have a part in, as one line without control characters: it goes to terminals."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(line.split())[:_MOST]


class Finding(NamedTuple):
    """One thing that was found."""

    kind: str  # a name in KINDS
    where: str  # the layer and n; "" for the whole submission
    text: str

    @property
    def follows(self) -> str:
        """Either REFUSED or MARKED."""
        return KINDS[self.kind].follows

    @property
    def advice(self) -> str:
        """Advice to the student, in words."""
        return KINDS[self.kind].advice

    @property
    def short(self) -> str:
        """Where and what, in a few words."""
        return f"{self.where}: {KINDS[self.kind].short}" if self.where else KINDS[self.kind].short
