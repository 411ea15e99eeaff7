"""Caches of what pages read far more often than it changes: rankings, and curves of best times."""

import bisect
import json
import statistics
import tempfile
import threading
import time
from datetime import tzinfo
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from fastapi import Request
from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from ..store import ranking
from ..store.models import FIRST, Class, Judgement
from ..store.ranking import Key, Likeness, RankedPlace, likenesses

_KEPT = 10.0  # time in seconds after which a standing is computed again, because names and teams may have changed
_SHARE = 4  # despite new judgements, a standing is used for this multiple of the time to compute it
_CROWD = 8  # smallest number of people or teams with a time for which the median is drawn
_DRAWN = 30.0  # time in seconds for which a chart is used

Curve = List[Tuple[float, float]]  # a step function: (seconds since the epoch, value in ms from this time on)


class ClassStanding(NamedTuple):
    stamp: Tuple  # the last judgement's id and settings of the class; if it differs, the standing is outdated
    made: float  # time of the computation on the monotonic clock
    took: float  # duration of the computation in seconds
    places: List[RankedPlace]  # with pseudonyms, unless the class shows names
    names: Dict[Key, str]  # names of people and teams, shown only to staff
    best_of: Dict[Key, str]  # identifier of each person's or team's best submission
    curves: Dict[Key, Curve]  # best time so far of each person or team
    best: Curve  # best time so far of the class
    median: Curve  # median of all best times so far
    floor_ms: Optional[float]  # time to write the layers' outputs, from the leader's verdict


class Standings:
    def __init__(self) -> None:
        self._known: Dict[int, ClassStanding] = {}
        self._drawn: Dict[Tuple, Tuple[float, bytes]] = {}
        self._alike: Dict[int, Tuple[Tuple, Dict[Key, Likeness]]] = {}
        self._locks: Dict[int, threading.Lock] = {}

    def of(self, session: Session, of_class: Class) -> ClassStanding:
        """Return a class's standing, which may lack the newest judgements."""
        last = session.scalar(select(func.max(Judgement.id)))
        stamp = (last, of_class.names_open, of_class.cudnn_ms, of_class.finalised_at)
        known = self._known.get(of_class.id)
        if known is not None and _fresh(known, stamp):
            return known
        # One reader computes the standing. Meanwhile, the others get the previous one; if there is none, they wait.
        lock = self._locks.setdefault(of_class.id, threading.Lock())
        if not lock.acquire(blocking=known is None):
            assert known is not None
            return known
        try:
            known = self._known.get(of_class.id)
            if known is None or not _fresh(known, stamp):
                known = self._known[of_class.id] = _standing(session, of_class, stamp)
            return known
        finally:
            lock.release()

    def likenesses(self, session: Session, of_class: Class) -> Dict[Key, Likeness]:
        stamp = self.of(session, of_class).stamp
        if self._alike.get(of_class.id, (None,))[0] != stamp:
            self._alike[of_class.id] = stamp, likenesses(session, of_class)
        return self._alike[of_class.id][1]

    def chart(self, session: Session, of_class: Class, key: Key, narrow: bool, zone: tzinfo) -> bytes:
        """Return the chart of the best times so far as SVG, with the curve of `key`. `narrow` is for small screens."""
        which = of_class.id, key, narrow, str(zone)
        made, text = self._drawn.get(which, (float("-inf"), b""))
        if time.monotonic() - made > _DRAWN:
            text = _chart(self.of(session, of_class), of_class, key, narrow, zone)
            if len(self._drawn) > 1000:
                self._drawn.clear()
            self._drawn[which] = time.monotonic(), text
        return text


def standings(request: Request) -> Standings:
    return request.app.state.standings


def _chart(standing: ClassStanding, of_class: Class, key: Key, narrow: bool, zone: tzinfo) -> bytes:
    from ...present.charts import best_times

    curves = [
        best_times.Steps("median", "peer", standing.median),
        best_times.Steps("best", "ours", standing.best),
        best_times.Steps("you", "auto", standing.curves.get(key, [])),
    ]
    levels = [
        best_times.Level("cuDNN", "ink", of_class.cudnn_ms or 0.0),
        best_times.Level("write floor", "limit", standing.floor_ms or 0.0),
    ]
    deadline = of_class.deadline.timestamp() if of_class.deadline else None
    with tempfile.TemporaryDirectory(prefix="fashion-infer-board-") as folder:
        path = Path(folder) / "chart.svg"
        best_times.draw(str(path), curves, levels, time.time(), deadline, narrow, zone)
        return path.read_bytes()


def _fresh(known: ClassStanding, stamp: Tuple) -> bool:
    age = time.monotonic() - known.made
    return age < _KEPT and (known.stamp == stamp or (known.stamp[1:] == stamp[1:] and age < _SHARE * known.took))


def _standing(session: Session, of_class: Class, stamp: Tuple) -> ClassStanding:
    start = time.monotonic()
    rows = ranking.judged(session, of_class)
    curves, best, median = _curves(rows)
    places = ranking.ranking(session, of_class, None, rows)
    leading = {key: one.submission_id for key, one in ranking.bests(rows).items()}
    names = {ranking.key_of(row): row.team or row.name for row in rows}
    floor = _floor(session, leading[places[0].key] if places else None)
    end = time.monotonic()
    return ClassStanding(stamp, end, end - start, places, names, leading, curves, best, median, floor)


def _curves(rows: List[Row]) -> Tuple[Dict[Key, Curve], Curve, Curve]:
    """Return curves of the best time so far of each person or team, of the class's best, and of the lower median."""
    curves: Dict[Key, Curve] = {}
    best: Curve = []
    median: Curve = []
    bests: List[float] = []  # the best times so far of all people and teams, sorted
    for row in rows:
        if row.purpose != FIRST or not row.ranked or row.op_ms is None:
            continue
        own = curves.setdefault(ranking.key_of(row), [])
        if own and own[-1][1] <= row.op_ms:
            continue
        if own:
            bests.pop(bisect.bisect_left(bests, own[-1][1]))
        bisect.insort(bests, row.op_ms)
        when = row.submitted_at.timestamp()
        own.append((when, row.op_ms))
        if not best or row.op_ms < best[-1][1]:
            best.append((when, row.op_ms))
        middle = statistics.median_low(bests)
        if len(bests) >= _CROWD and (not median or median[-1][1] != middle):
            median.append((when, middle))
    return curves, best, median


def _floor(session: Session, leader: Optional[str]) -> Optional[float]:
    """Return the time in ms to write the layers' outputs, from the leader's verdict; None if it is unknown."""
    query = select(Judgement.verdict).where(Judgement.submission_id == leader, Judgement.purpose == FIRST)
    text = session.scalar(query) if leader is not None else None
    try:
        verdict = json.loads(text or "{}")
        n = verdict["times"][0]["n"]
        layers = {times["layer"] for times in verdict["times"] if times["n"] == n}
        return sum(float(verdict["fill_ms"][f"layer {layer}, n = {n}"]) for layer in layers) or None
    except (ValueError, KeyError, IndexError, TypeError):
        return None
