"""What a referee may find, and what follows from it."""

from typing import Dict, NamedTuple, Tuple

REFUSED, MARKED = "refused", "marked"

# kind: what follows, and what to do about it, for the student.
KINDS: Dict[str, Tuple[str, str]] = {
    "broken": (REFUSED, "run `fashion-infer kernel check FILE` to see where it ends"),
    "wrong": (REFUSED, "run `fashion-infer kernel check FILE` until every layer is right"),
    "precision": (REFUSED, "this rubric asks for float32: no half precision, no TF32"),
    "call number": (REFUSED, "compute every call anew, from the inputs that it gets"),
    "inputs changed": (REFUSED, "leave data and weights as they are"),
    "guard zones": (REFUSED, "write nothing outside of the output"),
    "work after": (REFUSED, "be done when forward returns"),
    "too fast": (REFUSED, "compute and write the output within forward"),
    "work before": (MARKED, "do the work in forward; until then Layer Time counts in the place of Op Time"),
    "clocks": (MARKED, "the referee's clock counts"),
}


class Finding(NamedTuple):
    """One thing that was found."""

    kind: str  # of KINDS
    where: str  # the layer and n; "" for the whole submission
    text: str

    @property
    def follows(self) -> str:
        """Either REFUSED (no points for what it touches) or MARKED."""
        return KINDS[self.kind][0]

    @property
    def advice(self) -> str:
        """What to do, in words."""
        return KINDS[self.kind][1]
