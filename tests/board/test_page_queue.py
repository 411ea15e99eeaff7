"""The queue on pages: each job's expected wait, and whose names are visible."""

import random

import filled_board as fill
import pytest

pytest.importorskip("fastapi")
from fashion_infer.board.store import expectation, people, queries
from fashion_infer.board.store.models import JobRow, QueueRow, SubmissionRow


@pytest.mark.parametrize("seed", range(8))
def test_waits_equal_those_of_a_simulated_queue(small, seed):
    """In the simulation, each waiting job, in order, gets the grader that becomes free first."""
    kit, pick = small, random.Random(seed)
    slots = pick.choice([1, 2, 3])
    with kit.store.write() as session:
        session.add(QueueRow(backend="cpu", slots=slots))
    for _ in range(pick.randrange(10, 30)):
        kit.submit(pick.choice(["Ann", "Bob", "Cid"]))
        if pick.random() < 0.3:
            kit.finish(kit.claim(), seconds=10)
    for _ in range(pick.randrange(slots + 1)):
        kit.claim()
    kit.pass_time(61)
    with kit.store.read() as session:
        found = expectation.schedule(session, "cpu", kit.now)
        jobs = {job.id: job for job in session.query(JobRow).filter(JobRow.state.in_(("queued", "running")))}
        takes = 10.0 if session.query(fill.models.Judgement).first() else 30.0
        assert set(found) == set(jobs) and len(found) > 3
        free = [max(takes - 61, takes / 10) for job in jobs.values() if job.state == "running"]
        free += [0.0] * (slots - len(free))
        waiting = [job for job in jobs.values() if job.state == "queued"]
        for place, job in enumerate(sorted(waiting, key=lambda job: (job.round, job.queued_at, job.id)), 1):
            grader = free.index(min(free))
            assert found[job.id].place == place and found[job.id].start_in == pytest.approx(free[grader])
            one = session.get(SubmissionRow, job.submission_id)
            assert expectation.expected(session, one, kit.now) == found[job.id]
            free[grader] += takes


@pytest.mark.parametrize("viewer, class_, open_, named, readable", [
    ("own", "c", False, True, True), ("Bob", "c", False, False, False), ("Bob", "c", True, True, False),
    ("Ada", "c", False, True, True), ("Ina", "c", False, True, True),
    ("student", "d", False, False, False), ("student", "d", True, False, False),
    ("instructor", "d", False, False, False), ("instructor", "d", True, False, False),
])  # fmt: skip
def test_whose_names_a_queue_shows(small, viewer, class_, open_, named, readable):
    """A name is visible to its bearer, to the class's staff and, if the class has open names, to its students."""
    kit = small
    waits = kit.submit("Ann")
    kit.change(names_open=open_)
    with kit.store.write() as session:
        other = people.new_class(session, "d", "fa2017", "cpu", "")
        other.names_open = open_
        joined = people.join(session, other, [("S", "", ""), ("I", "instructor", "")])
        others = {one.person.role: one.person.id for one in joined}
    with kit.store.read() as session:
        who = others.get(viewer) or kit.people["Ann" if viewer == "own" else viewer]
        (job,) = queries.queue(session, "cpu")
        seen = job.seen(session.get(fill.models.Person, who))
    assert (seen.name == "Ann", seen.submission_id == waits, seen.own) == (named, readable, viewer == "own")
    assert seen.name in ("Ann", job.pseudonym) and seen.submission_id in (waits, None)
