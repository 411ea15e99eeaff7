"""Findings: what the referee observed of a submission that has a consequence."""

from typing import NamedTuple

from ...judging import reasons
from ...judging.calls import Cause
from ...judging.reasons import MARKED, REFUSED

__all__ = ["MARKED", "REFUSED", "Finding", "plain"]

_MOST = 1000  # largest number of characters of a finding's text
_EXPLAIN = "`fashion-infer kernel explain FILE` names the line"


def plain(text: str) -> str:
    """Return text that may come from a submission as one line without control characters, which a terminal can show."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(line.split())[:_MOST]


class Finding(NamedTuple):
    code: str  # a key of `judging.reasons.TABLE`
    where: str  # the layer and the number of images; "" for the whole submission
    sentence: str
    seen: str = ""  # an example, such as an incorrect output beside the exact one

    @classmethod
    def of(cls, cause: Cause, where: str = "", seen: str = "") -> "Finding":
        return cls(cause.code, where, plain(reasons.sentence(cause)), plain(seen))

    @property
    def text(self) -> str:
        return f"{self.sentence}: {self.seen}" if self.seen else self.sentence

    @property
    def follows(self) -> str:
        return reasons.TABLE[self.code].follows

    @property
    def advice(self) -> str:
        reason = reasons.TABLE[self.code]
        return "; ".join(filter(None, (reason.remedy, _EXPLAIN if reason.section else "")))

    @property
    def short(self) -> str:
        return f"{self.where}: {self.sentence}" if self.where else self.sentence
