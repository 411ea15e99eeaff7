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

from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from ..store import ranking
from ..store.models import Class, Judgement, Person, Team
from ..store.ranking import Key
from .view.chart import Point

_KEPT = 10.0  # seconds at most: names and teams change as well, and no judgement tells of it
_SHARE = 4  # it is looked at for at least so many times as long as it took to make
_CROWD = 8  # people with a time, before a median says anything of the class


class Standing(NamedTuple):
    """What does not depend on who looks."""

    stamp: Tuple
    made: float  # when, by the monotonic clock
    took: float  # seconds
    places: List[ranking.Place]  # as a stranger sees them: with pseudonyms, unless names are open
    names: Dict[Key, str]  # for the class's staff
    best_of: Dict[Key, str]  # the submission that counts
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
        """A class's, with its last judgement unless that came a moment ago."""
        last = session.scalar(select(func.max(Judgement.id)))
        stamp = (last, of_class.names_open, of_class.cudnn_ms, of_class.finalised_at)
        known = self._known.get(of_class.id)
        if known is not None and _fresh(known, stamp):
            return known
        # Of many who ask at once one works it out. The others get what there is, if there is any.
        lock = self._locks.setdefault(of_class.id, threading.Lock())
        if not lock.acquire(blocking=known is None):
            assert known is not None
            return known
        try:
            known = self._known.get(of_class.id)
            if known is None or not _fresh(known, stamp):
                known = self._known[of_class.id] = _made(session, of_class, stamp)
            return known
        finally:
            lock.release()


def _fresh(known: Standing, stamp: Tuple) -> bool:
    age = time.monotonic() - known.made
    return age < _KEPT and (known.stamp == stamp or (known.stamp[1:] == stamp[1:] and age < _SHARE * known.took))


def _made(session: Session, of_class: Class, stamp: Tuple) -> Standing:
    start = time.monotonic()
    rows = ranking.judged(session, of_class)
    curves, best, middle = _curves(rows)
    places = ranking.ranking(session, of_class, None, rows)
    leading = {key: one.submission_id for key, one in ranking.bests(rows).items()}
    names = _names(session, of_class)
    limit = _limit(session, leading[places[0].key] if places else None)
    end = time.monotonic()
    return Standing(stamp, end, end - start, places, names, leading, curves, best, middle, limit, {})


def _names(session: Session, of_class: Class) -> Dict[Key, str]:
    found: Dict[Key, str] = {}
    for what, table in (("person", Person), ("team", Team)):
        for number, name in session.execute(select(table.id, table.name).where(table.class_id == of_class.id)):
            found[what, number] = name
    return found


def _curves(rows: List[Row]) -> Tuple[Dict[Key, List[Point]], List[Point], List[Point]]:
    """Each one's best so far, the class's, and the median of all, as steps."""
    curves: Dict[Key, List[Point]] = {}
    best: List[Point] = []
    middle: List[Point] = []
    bests: List[float] = []  # sorted
    for row in rows:
        if row.purpose != "first" or not row.ranked or row.op_ms is None:
            continue
        own = curves.setdefault(ranking.key_of_row(row), [])
        if own and own[-1][1] <= row.op_ms:
            continue
        if own:
            bests.pop(bisect.bisect_left(bests, own[-1][1]))
        bisect.insort(bests, row.op_ms)
        step = row.submitted_at.timestamp(), row.op_ms
        own.append(step)
        if not best or row.op_ms < best[-1][1]:
            best.append(step)
        if len(bests) >= _CROWD:
            now = statistics.median_low(bests)
            if not middle or middle[-1][1] != now:
                middle.append((step[0], now))
    return curves, best, middle


def _limit(session: Session, leader: Optional[str]) -> Optional[float]:
    """What the referee itself took to write as many bytes, by the leader's verdict."""
    query = select(Judgement.verdict).where(Judgement.submission_id == leader, Judgement.purpose == "first")
    text = session.scalar(query) if leader is not None else None
    try:
        verdict = json.loads(text or "{}")
        n = verdict["times"][0]["n"]
        layers = {times["layer"] for times in verdict["times"] if times["n"] == n}
        return sum(float(verdict["fill_ms"][f"layer {layer}, n = {n}"]) for layer in layers) or None
    except (ValueError, KeyError, IndexError, TypeError):
        return None
