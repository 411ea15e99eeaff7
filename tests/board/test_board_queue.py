"""The queue: fair order, leases, one judgement per job, and expected waits."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profiles import examples
from sqlalchemy import delete, func, select

from fashion_infer.board.store import queries, queue
from fashion_infer.board.store.expectation import expected
from fashion_infer.board.store.models import Content, JobRow, Judgement, LogLine, Person, SubmissionRow
from fashion_infer.board.store.models import QueueRow as State
from fashion_infer.board.store.queue import LEASE, MOST_DEATHS, MOST_FAILURES, JudgingOutcome

SHARED = settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])


def served(kit):
    """Return the names of people in the order in which the queue serves them, until the queue is empty."""
    found = []
    while (claimed := kit.claim()) is not None:
        with kit.store.read() as session:
            found.append(session.get_one(SubmissionRow, claimed.submission).person.name)
        assert kit.finish(claimed)
    return found


def emptied(kit):
    """Delete all submissions, and return the kit, for the next example of a property test."""
    with kit.store.write() as session:
        for table in (LogLine, Judgement, JobRow, Content, SubmissionRow, State):
            session.execute(delete(table))
        for person in session.scalars(select(Person)):
            person.last_round = -1
    return kit


@given(order=st.lists(st.sampled_from(["Ann", "Bob", "Cid"]), min_size=1, max_size=12), burst=st.integers(0, 12))
@SHARED
def test_round_robin_then_first_come(small, order, burst):
    """The oracle keeps a list per person. The first submission of those who were served least is next."""
    kit = emptied(small)
    burst = min(burst, len(order))
    for who in order[:burst]:
        kit.submit(who)
    waiting = {name: [index for index, who in enumerate(order[:burst]) if who == name] for name in set(order[:burst])}
    wanted, turns = [], dict.fromkeys(waiting, 0)
    while any(waiting.values()):
        fewest = min(turns[name] for name in waiting if waiting[name])
        who = min((name for name in waiting if waiting[name] and turns[name] == fewest), key=lambda n: waiting[n][0])
        wanted.append(who)
        turns[who] += 1
        waiting[who].pop(0)
    assert served(kit) == wanted


@given(data=st.data())
@SHARED
def test_nobody_gets_more_than_two_turns_before_a_newcomer(small, data):
    """One of the two starts may be in the round that is being served, and the other in the submission's own round."""
    kit = emptied(small)
    starts = {}
    for _ in range(data.draw(st.integers(5, 25))):
        what = data.draw(st.sampled_from(["Ann", "Bob", "serve"]))
        if what != "serve":
            kit.submit(what)
        elif (claimed := kit.claim()) is not None:
            kit.finish(claimed)
    mine = kit.submit("Cid")
    for _ in range(60):
        if data.draw(st.booleans()):
            kit.submit(data.draw(st.sampled_from(["Ann", "Bob"])))
        claimed = kit.claim()
        kit.finish(claimed)
        if claimed.submission == mine:
            break
        with kit.store.read() as session:
            who = session.get_one(SubmissionRow, claimed.submission).person.name
        starts[who] = starts.get(who, 0) + 1
    assert kit.status(mine) == "judged" and all(count <= 2 for count in starts.values()), starts


class TestPlace:
    def test_places_are_the_order_of_judging(self, kit):
        rng = random.Random(1)
        ids = [kit.submit(rng.choice(["Ann", "Bob", "Cid"])) for _ in range(12)]
        with kit.store.read() as session:
            places = {one: expected(session, session.get_one(SubmissionRow, one), kit.now).place for one in ids}
            lines = queries.queue(session, "cpu")
        assert [line.submission_id for line in lines] == sorted(ids, key=places.get)
        assert [line.place for line in lines] == list(range(1, 13))
        order = [kit.judge() for _ in ids]
        assert sorted(ids, key=places.get) == order and sorted(places.values()) == list(range(1, 13))


class TestLeases:
    def test_an_outcome_after_an_expired_lease_does_not_count(self, kit):
        identifier = kit.submit("Ann")
        late = kit.claim()
        kit.pass_time(LEASE.total_seconds() + 1)
        with kit.store.write() as session:
            assert queue.recover(session, at=kit.now) == 1
        again = kit.claim("other")
        assert (again.submission, again.content) == (identifier, late.content)
        assert not kit.finish(late, 1.0) and kit.finish(again, 2.0)
        with kit.store.read() as session:
            assert session.scalars(select(Judgement.op_ms)).all() == [2.0]

    def test_a_renewed_lease_is_valid(self, kit):
        kit.submit("Ann")
        claimed = kit.claim()
        for _ in range(5):
            kit.pass_time(LEASE.total_seconds() - 1)
            with kit.store.write() as session:
                assert queue.renew(session, [claimed.lease, "no.lease"], kit.now) == [claimed.lease]
                assert queue.recover(session, at=kit.now) == 0
        assert kit.finish(claimed)

    def test_jobs_of_a_dead_dispatcher_return_to_their_places(self, kit):
        ids = [kit.submit(who) for who in ("Ann", "Bob", "Cid")]
        mine, other = kit.claim("me"), kit.claim("other")
        with kit.store.write() as session:
            assert queue.recover(session, "me", kit.now) == 1
        assert kit.status(ids[0]) == "queued" and kit.status(ids[1]) == "running"
        assert kit.claim().submission == ids[0]
        assert not kit.finish(mine) and kit.finish(other)

    def test_recovery_compares_whole_names_of_dispatchers(self, kit):
        kit.submit("Ann")
        kit.claim("me2")
        with kit.store.write() as session:
            assert queue.recover(session, "me", kit.now) == 0 and queue.recover(session, "m%", kit.now) == 0

    @pytest.mark.parametrize("outcome, most", [(None, MOST_DEATHS), (JudgingOutcome("failed", "ill"), MOST_FAILURES)])
    def test_a_submission_fails_after_many_failed_attempts(self, kit, outcome, most):
        identifier = kit.submit("Ann")
        for number in range(most):
            assert kit.status(identifier) == "queued", number
            claimed = kit.claim()
            with kit.store.write() as session:
                queue.give_back(session, claimed.lease, "not begun", outcome, counted=False, at=kit.now)
            claimed = kit.claim()
            with kit.store.write() as session:
                queue.give_back(session, claimed.lease, "it fell", outcome, at=kit.now)
        assert kit.status(identifier) == "failed" and kit.claim() is None
        with kit.store.read() as session:
            (judgement,) = session.scalars(select(Judgement)).all()
            assert judgement.reason == (outcome.reason if outcome else f"its grader died {most} times: it fell")

    def test_cancelled(self, kit):
        waits, runs, done = kit.submit("Ann"), None, None
        kit.submit("Bob")
        claimed = kit.claim()
        runs = claimed.submission
        with kit.store.write() as session:
            for one in (waits, runs):
                queue.cancel(session, session.get_one(SubmissionRow, one), "Ann")
            assert queue.renew(session, [claimed.lease], kit.now) == []
        assert not kit.finish(claimed) and kit.status(runs) == "cancelled"
        done = kit.judge()
        with kit.store.write() as session:
            assert not queue.cancel(session, session.get_one(SubmissionRow, done), "Bob")
        assert kit.status(done) == "judged"

    @given(data=st.data())
    @SHARED
    def test_each_submission_is_judged_once(self, small, data):
        kit = emptied(small)
        ids, held = [], []
        for _ in range(data.draw(st.integers(1, 40))):
            what = data.draw(st.sampled_from(["submit", "claim", "finish", "die", "expire", "restart"]))
            if what == "submit":
                ids.append(kit.submit(data.draw(st.sampled_from(["Ann", "Bob", "Cid"]))))
            elif what == "claim" and (claimed := kit.claim()) is not None:
                held.append(claimed)
            elif held and what in ("finish", "die"):
                one = data.draw(st.sampled_from(held))  # the job may already be in the queue again
                if what == "finish":
                    kit.finish(one)
                else:
                    with kit.store.write() as session:
                        queue.give_back(session, one.lease, "died", at=kit.now)
            elif what in ("expire", "restart"):
                kit.pass_time(60 if what == "expire" else 0)
                with kit.store.write() as session:
                    queue.recover(session, "me" if what == "restart" else None, kit.now)
        with kit.store.write() as session:
            queue.recover(session, "me", kit.now)
        served(kit)
        with kit.store.read() as session:
            counts = dict(
                session.execute(select(Judgement.submission_id, func.count()).group_by(Judgement.submission_id)).all()
            )
        assert counts == dict.fromkeys(ids, 1)
