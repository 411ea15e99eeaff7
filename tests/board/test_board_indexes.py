"""Near the end of a term, with many finished jobs, no database query of the queue reads all of them."""

from datetime import timedelta

import pytest
from sqlalchemy import event, insert, text

from fashion_infer.board.store import expectation, queries, queue
from fashion_infer.board.store.models import JobRow, SubmissionRow

JOBS = 20_000


@pytest.fixture
def term(kit):
    """A class with JOBS judged submissions, three that wait and one that is running."""
    before, people = kit.now, list(kit.people.values())
    with kit.store.write() as session:
        same = {"class_id": kit.class_id, "digest": "", "name": "k.cu", "size": 1, "status": "judged"}
        for start in range(0, JOBS, 1000):
            submissions, jobs = [], []
            for number in range(start, start + 1000):
                one, at = f"s{number}", before - timedelta(seconds=60 * (JOBS - number))
                person = people[number % 3]
                submissions.append({**same, "id": one, "key": one, "person_id": person, "submitted_at": at})
                job = {"submission_id": one, "backend": "cpu", "state": "done", "round": number, "queued_at": at}
                jobs.append(job)
            session.execute(insert(SubmissionRow), submissions)
            session.execute(insert(JobRow), jobs)
    for who in ("Ann", "Bob", "Cid", "Ann"):
        kit.submit(who)
    kit.running = kit.claim()
    if kit.store.engine.dialect.name == "postgresql":  # statistics, which PostgreSQL would collect later by itself
        with kit.store.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.execute(text("ANALYZE"))
    return kit


QUESTIONS = {
    "claim": lambda kit, session: queue.claim(session, "cpu", "me", kit.now),
    "renew": lambda kit, session: queue.renew(session, [kit.running.lease], kit.now),
    "recover what ran out": lambda kit, session: queue.recover(session, at=kit.now),
    "recover an owner's": lambda kit, session: queue.recover(session, "me"),
    "finish": lambda kit, session: queue.finish(session, kit.running.lease, queue.JudgingOutcome("judged"), kit.now),
    "give back": lambda kit, session: queue.give_back(session, kit.running.lease, "it died", at=kit.now),
    "expected": lambda kit, session: expectation.expected(session, waits(session), kit.now),
    "schedule": lambda kit, session: expectation.schedule(session, "cpu", kit.now),
    "how many wait": lambda kit, session: queries.waiting(session, "cpu"),
    "the queue": lambda kit, session: queries.queue(session, "cpu"),
    "accept": lambda kit, session: kit.submit("Cid"),
}


def waits(session):
    return session.query(SubmissionRow).filter_by(status="queued").first()


def plans(kit, question):
    """Yield each statement about jobs in one operation of the queue, with the database's plan for the statement."""
    said, engine = [], kit.store.engine

    def note(connection, cursor, statement, parameters, context, many):
        if "jobs" in statement and statement.startswith(("SELECT", "UPDATE")):
            said.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    try:
        if question == "accept":
            QUESTIONS[question](kit, None)
        else:
            with kit.store.write() as session:
                QUESTIONS[question](kit, session)
                session.flush()
                session.rollback()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    how = "EXPLAIN QUERY PLAN " if engine.dialect.name == "sqlite" else "EXPLAIN "
    with engine.connect() as connection:
        for statement, parameters in said:
            rows = connection.exec_driver_sql(how + statement, parameters).all()
            yield statement, "\n".join(str(row[-1]) for row in rows)


def test_no_operation_reads_every_job(term):
    seen = 0
    for question in QUESTIONS:
        for statement, plan in plans(term, question):
            seen += 1
            lines = [line for line in plan.splitlines() if "jobs" in line]
            assert lines and not [line for line in lines if "SCAN jobs" in line or "Seq Scan on jobs" in line], (
                question,
                statement,
                plan,
            )
            # A plan that uses only the first column of an index would read all jobs of a backend.
            short = [line for line in lines if line.rstrip().endswith("(backend=?)")]
            assert not short, (question, statement, plan)
    assert seen > 10
