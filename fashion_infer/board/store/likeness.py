"""What the ranked submissions of a class have in common, for instructors: the same file, and times within the noise."""

import hashlib
import json
from typing import Dict, List, NamedTuple, Optional

from sqlalchemy import select
from sqlalchemy.orm import Session

from ...system import noise
from .models import FIRST, Class, Content, Judgement
from .ranking import Key, RankedBest, bests, judged


class Likeness(NamedTuple):
    same_file: List[Key]  # others whose ranked submission has the same bytes, apart from white space
    tied: bool  # whether the time differs from that of the place above by no more than the noise of the two


def likenesses(session: Session, of_class: Class) -> Dict[Key, Likeness]:
    files: Dict[bytes, List[Key]] = {}
    found: Dict[Key, Likeness] = {}
    above: Optional[RankedBest] = None
    noise_above = 0.0
    for best, key in sorted((best, key) for key, best in bests(judged(session, of_class)).items()):
        content = session.scalar(select(Content.content).where(Content.submission_id == best.submission_id))
        same = files.setdefault(hashlib.sha256(b"".join(content.split())).digest(), []) if content else []
        same.append(key)
        own = _noise_ms(session, best)
        tied = above is not None and above.behind == best.behind and best.op_ms - above.op_ms <= max(own, noise_above)
        found[key] = Likeness(same, tied)
        above, noise_above = best, own
    return {key: one._replace(same_file=[each for each in one.same_file if each != key]) for key, one in found.items()}


def _noise_ms(session: Session, best: RankedBest) -> float:
    """Return the spread of the submission's final runs in ms; without such runs, that in its verdict, 0 if unknown."""
    if not best.behind:
        final = (Judgement.submission_id == best.submission_id, Judgement.purpose.like("final-%"), Judgement.ranked)
        times = [ms for ms in session.scalars(select(Judgement.op_ms).where(*final)) if ms is not None]
        return best.op_ms * (noise.spread(times) or 0.0)
    first = (Judgement.submission_id == best.submission_id, Judgement.purpose == FIRST)
    try:
        layers = json.loads(session.scalar(select(Judgement.verdict).where(*first)) or "{}")["times"]
        return sum(float(one["op"]) * float(one["spread"] or 0) for one in layers if one["n"] == layers[0]["n"])
    except (ValueError, KeyError, IndexError, TypeError):
        return 0.0
