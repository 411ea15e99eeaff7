"""A class's ranking and curves, worked out once for all who look: a page takes them from here.

The ranking of 300 people with 50 submissions each is read from 15,000 judgements. It changes when a judgement is added,
which one small query tells, and is looked at far more often.
"""

import bisect
import json
import statistics
import threading
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ..store import ranking
from ..store.models import Class, Judgement, Person, Submission, Team
from ..store.types import CANCELLED, JUDGED
from .chart import Point

Key = Tuple[str, int]
_KEPT = 10.0  # seconds at most: names and teams change as well, and no judgement tells of it
_CROWD = 3  # people with a time, before a median says anything of the class


class Standing(NamedTuple):
    """What does not depend on who looks."""

    stamp: Tuple
    made: float
    places: List[ranking.Place]  # as a stranger sees them: with pseudonyms, unless names are open
    names: Dict[Key, str]  # for the class's staff
    curves: Dict[Key, List[Point]]  # best time so far of each person or team
    best: List[Point]
    middle: List[Point]  # median of all the bests so far
    limit_ms: Optional[float]  # of the hardware: writing the layers' outputs and computing nothing
    rows: Dict[int, str]  # of the table, drawn: filled by the ranking's page


class Standings:
    """One a service."""

    def __init__(self) -> None:
        self._known: Dict[int, Standing] = {}
        self._locks: Dict[int, threading.Lock] = {}

    def of(self, session: Session, of_class: Class) -> Standing:
        """A class's, no older than its last judgement."""
        last = session.scalar(select(func.max(Judgement.id)))
        stamp = (last, of_class.names_open, of_class.finalised_at)
        # Of many who ask at once one works it out.
        with self._locks.setdefault(of_class.id, threading.Lock()):
            known = self._known.get(of_class.id)
            if known is None or known.stamp != stamp or time.monotonic() - known.made > _KEPT:
                known = self._known[of_class.id] = _made(session, of_class, stamp)
            return known


def key_of(person: Person) -> Key:
    """Whom a person is ranked as."""
    return ("team", person.team_id) if person.team_id is not None else ("person", person.id)


def _made(session: Session, of_class: Class, stamp: Tuple) -> Standing:
    curves, best, middle = _curves(_times(session, of_class))
    places = ranking.ranking(session, of_class, None)
    limit = _limit(session, of_class)
    return Standing(stamp, time.monotonic(), places, _names(session, of_class), curves, best, middle, limit, {})


def _names(session: Session, of_class: Class) -> Dict[Key, str]:
    found: Dict[Key, str] = {}
    for what, table in (("person", Person), ("team", Team)):
        for number, name in session.execute(select(table.id, table.name).where(table.class_id == of_class.id)):
            found[what, number] = name
    return found


def _times(session: Session, of_class: Class) -> List[Tuple[Key, float, float]]:
    """(who, when, ms) of every time that counts, in the order in which they were handed in."""
    query = (
        select(Person.id, Person.team_id, Submission.submitted_at, Judgement.op_ms)
        .select_from(Judgement)
        .join(Judgement.submission)
        .join(Submission.person)
        .where(
            Submission.class_id == of_class.id, Submission.status != CANCELLED, Judgement.status == JUDGED,
            Judgement.purpose == "first", Judgement.ranked, Judgement.op_ms.is_not(None),
        )
        .order_by(Submission.submitted_at, Submission.id)
    )  # fmt: skip
    return [
        (("team", team) if team is not None else ("person", person), when.timestamp(), ms)
        for person, team, when, ms in session.execute(query)
    ]


def _curves(times: List[Tuple[Key, float, float]]) -> Tuple[Dict[Key, List[Point]], List[Point], List[Point]]:
    """Each one's best so far, the class's, and the median of all, as steps."""
    curves: Dict[Key, List[Point]] = {}
    best: List[Point] = []
    middle: List[Point] = []
    bests: List[float] = []  # sorted
    for key, when, ms in times:
        own = curves.setdefault(key, [])
        if own and own[-1][1] <= ms:
            continue
        if own:
            bests.pop(bisect.bisect_left(bests, own[-1][1]))
        bisect.insort(bests, ms)
        own.append((when, ms))
        if not best or ms < best[-1][1]:
            best.append((when, ms))
        if len(bests) >= _CROWD:
            now = statistics.median_low(bests)
            if not middle or middle[-1][1] != now:
                middle.append((when, now))
    return curves, best, middle


def _limit(session: Session, of_class: Class) -> Optional[float]:
    """What the referee itself took to write as many bytes: the least of what stands in the leader's verdict."""
    text = session.scalar(
        select(Judgement.verdict).join(Judgement.submission)
        .where(Submission.class_id == of_class.id, Judgement.ranked, Judgement.purpose == "first", Judgement.op_ms > 0)
        .order_by(Judgement.op_ms).limit(1)
    )  # fmt: skip
    try:
        verdict = json.loads(text or "{}")
        n = verdict["times"][0]["n"]
        layers = {times["layer"] for times in verdict["times"] if times["n"] == n}
        return sum(float(verdict["fill_ms"][f"layer {layer}, n = {n}"]) for layer in layers) or None
    except (ValueError, KeyError, IndexError, TypeError):
        return None
