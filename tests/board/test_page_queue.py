"""The queue as pages show it: who waits how long, and what changes when somebody is taken out."""

import random

import filled_board as fill
import pytest

pytest.importorskip("fastapi")
from fashion_infer.board.page.queue_cache import Queues
from fashion_infer.board.page.view import queues as view
from fashion_infer.board.store import expectation, queue
from fashion_infer.board.store.models import Job, Queue, Submission


@pytest.mark.parametrize("seed", range(8))
def test_the_whole_queue_says_what_each_submission_is_told(small, seed):
    """One pass over a queue gives every wait that `expected` works out for one submission alone."""
    kit, pick = small, random.Random(seed)
    with kit.store.write() as session:
        session.add(Queue(backend="cpu", slots=pick.choice([1, 2, 3])))
    for _ in range(pick.randrange(10, 30)):
        kit.submit(pick.choice(["Ann", "Bob", "Cid"]), seconds=pick.uniform(0.1, 8))
        if pick.random() < 0.3:
            kit.finish(kit.claim(), seconds=pick.uniform(0.5, 9))
    for _ in range(pick.randrange(3)):
        kit.claim()
    kit.pass_time(pick.uniform(0, 3))
    with kit.store.read() as session:
        found = expectation.schedule(session, "cpu", kit.now)
        waiting = session.query(Job).filter_by(state="queued").all()
        assert set(found) == {job.id for job in waiting} and len(waiting) > 3
        for job in waiting:
            one = session.get(Submission, job.submission_id)
            assert found[job.id] == pytest.approx(expectation.expected(session, one, kit.now).start_in)


def test_it_is_read_once_for_many_and_again_when_told(small):
    kit, line = small, Queues()
    first = kit.submit("Ann")
    with kit.store.read() as session:
        assert [job.submission_id for job in line.of(session, "cpu")] == [first]
    kit.submit("Bob")
    with kit.store.read() as session:
        assert len(line.of(session, "cpu")) == 1
        line.forget()
        assert [job.place for job in line.of(session, "cpu")] == [1, 2]


def test_one_finds_ones_own_however_many_wait(small):
    """Of a long queue the beginning is shown, and one's own wherever it stands."""
    kit = small
    for number in range(60):
        kit.submit("Ann" if number % 2 else "Bob")
    with kit.store.write() as session:
        of, cid = session.get(fill.models.Class, kit.class_id), session.get(fill.models.Person, kit.people["Cid"])
        last = queue.enqueue(session, fill.judged(session, cid), "cpu", "first", kit.now)
        last.round = 1000
    with kit.store.read() as session:
        page = view.gather(Queues().of(session, "cpu"), of, cid, 1)
    assert len(page.rows) == 51 and page.rows[-1].mine and page.rows[-1].place == "61"
    assert page.more == "\u2026 and 10 more" and "61st in the queue" in page.mine[0]


@pytest.mark.parametrize("number, words", [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"),
                                           (13, "13th"), (21, "21st"), (102, "102nd"), (111, "111th")])  # fmt: skip
def test_places_are_ordinals(number, words):
    assert view._ordinal(number) == words
