"""Ranks the people and teams of a class by the sum of the Op Times of their best submission, and compares these."""

import hashlib
import json
import statistics
from datetime import datetime
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from ...system import noise
from .models import FIRST, INCORRECT, JUDGED, OWN, Class, Content, Judgement, Person, SubmissionRow, Team
from .people import sees_all

RUNS = 5  # number of final runs of a leader's submission
_ENOUGH = 3  # least number of correct final runs for a rank

Key = Tuple[str, int]


class RankedPlace(NamedTuple):
    place: int  # from 1
    name: str  # name of the person or team, or a pseudonym
    own: bool  # whether the viewer is this person or a member of this team
    op_ms: float  # sum of Op Times of the best submission, or the median of that sum in its final runs
    layer_ms: Optional[float]  # the same of Layer Times
    final: bool  # whether op_ms is the median of the final runs
    submitted_at: datetime  # time at which the best submission was submitted
    submissions: int  # number of the person's or team's judged submissions
    submission_id: Optional[str]  # the best submission; None if the viewer may not see it
    key: Key  # ("team" or "person", id); not shown to people


class RankedBest(NamedTuple):
    """The submission by which a person or team is ranked. Sorting a list of these gives the ranking's order."""

    behind: bool  # True if the submission has no final runs; it is then ranked after all submissions with final runs
    op_ms: float
    submitted_at: datetime
    submission_id: str
    person_id: int
    layer_ms: Optional[float]


def ranking(
    session: Session, of_class: Class, viewer: Optional[Person], rows: Optional[List[Row]] = None
) -> List[RankedPlace]:
    """Return the ranking of a class as a viewer sees it: final runs first, by medians, then the others by best time."""
    rows = judged(session, of_class) if rows is None else rows
    found = bests(rows)
    count: Dict[Key, int] = {}
    for row in rows:
        count[key_of(row)] = count.get(key_of(row), 0) + (row.purpose == FIRST)
    people = {row.person_id: row for row in rows}
    staff = sees_all(viewer) and viewer is not None and viewer.class_id == of_class.id
    places = []
    for number, (best, key) in enumerate(sorted((best, key) for key, best in found.items()), 1):
        row = people[best.person_id]
        own = viewer is not None and key_of(viewer) == key
        named = own or staff or of_class.names_open
        name = (row.team if named else row.team_pseudonym) if key[0] == "team" else row.name if named else row.pseudonym
        readable = staff or (viewer is not None and viewer.id == best.person_id)
        places.append(
            RankedPlace(
                number,
                name,
                own,
                best.op_ms,
                best.layer_ms,
                not best.behind,
                best.submitted_at,
                count[key],
                best.submission_id if readable else None,
                key,
            )
        )
    return places


def key_of(one: Any) -> Key:
    """Return the key of the team or person as which a `Person`, or the author of a row of `judged`, is ranked."""
    if one.team_id is not None:
        return "team", one.team_id
    return "person", one.id if isinstance(one, Person) else one.person_id


def judged(session: Session, of_class: Class) -> List[Row]:
    """Return a class's judgements that are not refused or failed, as rows, in the order of submission."""
    query = (
        select(
            Judgement.submission_id,
            Judgement.purpose,
            Judgement.ranked,
            Judgement.op_ms,
            Judgement.layer_ms,
            SubmissionRow.submitted_at,
            SubmissionRow.person_id,
            Person.team_id,
            Person.name,
            Person.pseudonym,
            Team.name.label("team"),
            Team.pseudonym.label("team_pseudonym"),
        )
        .join(SubmissionRow, Judgement.submission_id == SubmissionRow.id)
        .join(Person, SubmissionRow.person_id == Person.id)
        .outerjoin(Team, Person.team_id == Team.id)
        .where(SubmissionRow.class_id == of_class.id, Judgement.status.in_((JUDGED, INCORRECT)))
        .order_by(SubmissionRow.submitted_at, SubmissionRow.id)
    )
    return list(session.execute(query))


def bests(rows: List[Row]) -> Dict[Key, RankedBest]:
    """Return the best submission per person or team; final runs count by their median, and before all others."""
    finals: Dict[str, List[Row]] = {}
    for row in rows:
        if row.purpose not in OWN:
            finals.setdefault(row.submission_id, []).append(row)
    found: Dict[Key, RankedBest] = {}
    for row in rows:
        if row.purpose != FIRST or not row.ranked or row.op_ms is None:
            continue
        runs = finals.get(row.submission_id, [])
        whole, counted = len(runs) == RUNS, [row]
        if whole:
            counted = [run for run in runs if run.ranked and run.op_ms is not None]
            if len(counted) < _ENOUGH:
                continue
        ms = statistics.median(one.op_ms for one in counted)
        layers = [one.layer_ms for one in counted if one.layer_ms is not None]
        layer_ms = statistics.median(layers) if layers else None
        best = RankedBest(not whole, ms, row.submitted_at, row.submission_id, row.person_id, layer_ms)
        key = key_of(row)
        if key not in found or best < found[key]:
            found[key] = best
    return found


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
