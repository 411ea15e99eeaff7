"""Exports a class's ranking and marks as CSV, also in the formats that Canvas and Moodle import."""

import csv
import io
from typing import Any, List, NamedTuple, Optional, Tuple

from sqlalchemy.orm import Session

from .store import queries
from .store.models import STUDENT, Class, Judgement, Person, SubmissionRow
from .store.ranking import RankedPlace, key_of, ranking

# Columns of the ranking; points_of_that is the points of the submission handed_in_as_final.
COLUMNS = ("place", "name", "team", "op_ms", "final_runs", "layer_ms", "points", "out_of", "submission", "submitted_at",
           "submissions", "handed_in_as_final", "points_of_that")  # fmt: skip
FORMATS = {"ranking": "Ranking", "marks": "Marks", "canvas": "Canvas", "moodle": "Moodle"}


class StudentMarks(NamedTuple):
    person: Person
    place: Optional[RankedPlace]
    submissions: int  # number of the student's submissions
    best: Optional[Judgement]  # the student's or team's best in the ranking; without a rank, the one with most points
    final: Optional[SubmissionRow]  # the submission marked as final

    @property
    def counts(self) -> Optional[Judgement]:
        """The judgement that determines the mark: that of the final submission; if there is none, `best`."""
        return self.final.judgement if self.final is not None else self.best


def marks(session: Session, of_class: Class) -> List[StudentMarks]:
    """Return the marks of all students in the ranking's order, and then of students without a rank, sorted by name."""
    staff = Person(class_id=of_class.id, role="instructor", team_id=None)  # a viewer who sees all names and submissions
    places = {one.key: one for one in ranking(session, of_class, staff)}
    found = []
    for person, count, _ in queries.roster(session, of_class):
        if person.role != STUDENT:
            continue
        own = queries.submissions(session, queries.by(person), 100_000)
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
        {"ranking": _ranking, "marks": _marks, "canvas": _canvas, "moodle": _moodle}[kind](of_class, students)
    )
    return out.getvalue()


def _ranking(of_class: Class, students: List[StudentMarks]) -> List[Tuple[Any, ...]]:
    rows: List[Tuple[Any, ...]] = [COLUMNS]
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
            )
        )
    return rows


def _marks(of_class: Class, students: List[StudentMarks]) -> List[Tuple[Any, ...]]:
    rows: List[Tuple[Any, ...]] = [("name", "team", "points", "out_of", "submission")]
    for one in students:
        team = one.person.team.name if one.person.team else ""
        rows.append((one.person.name, team, *_points(one.counts), one.counts.submission_id if one.counts else ""))
    return rows


def _canvas(of_class: Class, students: List[StudentMarks]) -> List[Tuple[Any, ...]]:
    """Return a table for Canvas's gradebook, which finds students by SIS login and the assignment by title."""
    title = f"fashion-infer {of_class.name}"
    most = max((one.counts.out_of for one in students if one.counts), default=100.0)
    rows: List[Tuple[Any, ...]] = [
        ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", title),
        ("    Points Possible", "", "", "", "", f"{most:g}"),
    ]
    return rows + [
        (one.person.name, "", "", one.person.name, of_class.name, _points(one.counts)[0]) for one in students
    ]


def _moodle(of_class: Class, students: List[StudentMarks]) -> List[Tuple[Any, ...]]:
    """Return a table for Moodle's grade import, with the columns username, grade and feedback."""
    rows: List[Tuple[Any, ...]] = [("username", f"fashion-infer {of_class.name}", "feedback")]
    for one in students:
        rank = f"rank {one.place.place}, Op Time {one.place.op_ms:.3f} ms" if one.place else "not ranked"
        rows.append((one.person.name, _points(one.counts)[0], rank))
    return rows


def _points(judgement: Optional[Judgement]) -> Tuple[str, str]:
    return (f"{judgement.points:g}", f"{judgement.out_of:g}") if judgement is not None else ("", "")
