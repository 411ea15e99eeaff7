"""Exports a class's ranking and marks as CSV, also in the formats that Canvas and Moodle import."""

import csv
import io
from typing import Any, List, NamedTuple, Optional, Tuple

from sqlalchemy.orm import Session

from . import verdicts
from .store import queries
from .store.models import STUDENT, Class, Judgement, Person, SubmissionRow
from .store.ranking import RankedPlace, key_of, likenesses, ranking

# Columns of the ranking; points_of_that is the points of the submission handed_in_as_final.
COLUMNS = ("place", "name", "team", "op_ms", "final_runs", "layer_ms", "points", "out_of", "submission", "submitted_at",
           "submissions", "handed_in_as_final", "points_of_that", "same_file_as", "tied_with_place_above")  # fmt: skip
FORMATS = {"ranking": "Ranking", "marks": "Marks", "canvas": "Canvas", "moodle": "Moodle"}


class StudentMarks(NamedTuple):
    person: Person
    place: Optional[RankedPlace]
    submissions: int  # number of the student's submissions
    best: Optional[Judgement]  # the student's or team's best in the ranking; without a rank, the one with most points
    final: Optional[SubmissionRow]  # the submission marked as final

    @property
    def counts(self) -> Optional[Judgement]:
        return self.final.judgement if self.final is not None else self.best


def marks(session: Session, of_class: Class) -> List[StudentMarks]:
    """Return the marks of all students in the ranking's order, and then of students without a rank, sorted by name."""
    staff = Person(class_id=of_class.id, role="instructor", team_id=None)  # a viewer who sees all names and submissions
    places = {one.key: one for one in ranking(session, of_class, staff)}
    found = []
    for person, count, _ in queries.roster(session, of_class):
        if person.role != STUDENT:
            continue
        own = queries.submissions(session, queries.by(person) & ~SubmissionRow.test, 100_000)
        place = places.get(key_of(person))
        judged = [one.judgement for one in own if one.judgement is not None]
        best = max(judged, key=lambda one: one.points, default=None)
        if place is not None:
            best = session.get_one(SubmissionRow, place.submission_id).judgement
        final = next((one for one in own if one.final), None)
        found.append(StudentMarks(person, place, count, best, final))
    return sorted(found, key=lambda one: (one.place is None, one.place.place if one.place else 0, one.person.name))


def as_csv(session: Session, of_class: Class, kind: str = "ranking") -> str:
    """Return the table `kind`, one of `FORMATS`, as CSV. Names cannot be formulas (see `people.join`)."""
    students = marks(session, of_class)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(
        {"ranking": _ranking, "marks": _marks, "canvas": _canvas, "moodle": _moodle}[kind](session, of_class, students)
    )
    return out.getvalue()


def _ranking(session: Session, of_class: Class, students: List[StudentMarks]) -> List[Tuple[Any, ...]]:
    rows: List[Tuple[Any, ...]] = [COLUMNS]
    alike = likenesses(session, of_class)
    names = {key_of(one.person): one.person.team.name if one.person.team else one.person.name for one in students}
    for person, place, count, best, final in students:
        rows.append(
            (
                place.place if place else "",
                person.name,
                person.team.name if person.team else "",
                f"{place.op_ms:.6f}" if place else "",
                int(place.final) if place else "",
                f"{place.layer_ms:.6f}" if place and place.layer_ms is not None else "",
                *_points(best),
                best.submission_id if best else "",
                place.submitted_at.isoformat() if place else "",
                count,
                final.id if final else "",
                _points(final.judgement if final else None)[0],
                "; ".join(names.get(key, "") for key in alike[place.key].same_file) if place else "",
                int(alike[place.key].tied) if place else "",
            )
        )
    return rows


def _marks(session: Session, of_class: Class, students: List[StudentMarks]) -> List[Tuple[Any, ...]]:
    rows: List[Tuple[Any, ...]] = [("name", "team", "points", "out_of", "submission")]
    for one in students:
        team = one.person.team.name if one.person.team else ""
        rows.append((one.person.name, team, *_points(one.counts), one.counts.submission_id if one.counts else ""))
    return rows


def _canvas(session: Session, of_class: Class, students: List[StudentMarks]) -> List[Tuple[Any, ...]]:
    """Return a table for Canvas's gradebook, which finds students by SIS login and the assignment by title."""
    title = f"fashion-infer {of_class.name}"
    most = max((one.counts.out_of for one in students if one.counts), default=100.0)
    rows: List[Tuple[Any, ...]] = [
        ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Notes", title),
        ("    Points Possible", "", "", "", "", "", f"{most:g}"),
    ]
    return rows + [
        (one.person.name, "", "", one.person.name, of_class.name, _reason(session, one), _points(one.counts)[0])
        for one in students
    ]


def _moodle(session: Session, of_class: Class, students: List[StudentMarks]) -> List[Tuple[Any, ...]]:
    rows = [(one.person.name, _points(one.counts)[0], _reason(session, one)) for one in students]
    return [("username", f"fashion-infer {of_class.name}", "feedback"), *rows]


def _reason(session: Session, one: StudentMarks) -> str:
    counts = one.counts
    if counts is None:
        return "Not judged yet." if one.submissions else "Nothing was submitted."
    other = one.place is not None and one.place.submission_id != counts.submission_id
    rank = f"Rank {one.place.place}{' by another submission' if other else ''}." if one.place else "No rank."
    verdict = queries.visible(counts.verdict, False) or {}
    times = verdicts.shown(verdict).get("times", True) is True
    said = verdicts.sentence(counts.status, counts, verdict, times)
    return " ".join([rank, said, *(["; ".join(verdicts.lost(verdict))] if counts.ranked else [])]).strip()


def _points(judgement: Optional[Judgement]) -> Tuple[str, str]:
    return (f"{judgement.points:g}", f"{judgement.out_of:g}") if judgement is not None else ("", "")
