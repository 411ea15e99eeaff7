"""A cluster loses all its nodes and gets new ones: waiting jobs are kept without a promised start, and then judged."""

import importlib.util
import os
import time

import board_trial
import profiles
import pytest
from board_kit import Kit
from sqlalchemy import func, select

from fashion_infer.board.queue import dispatcher as dispatching
from fashion_infer.board.queue.dispatcher import Dispatcher
from fashion_infer.board.store import expectation, queries
from fashion_infer.board.store.models import JobRow, Judgement, LogLine, now

no_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not here")
pytestmark = [no_ray, pytest.mark.slow]


@pytest.fixture
def cluster(ray_head):
    """The head, without nodes. The nodes that a test adds are removed after it."""
    yield ray_head
    for node in list(ray_head.worker_nodes):
        ray_head.remove_node(node, allow_graceful=False)


@pytest.fixture
def board(cluster, small, monkeypatch):
    """A dispatcher on that cluster, a client for the service's health, and people who submit."""
    fastapi = pytest.importorskip("fastapi.testclient")
    from fashion_infer.board import BoardSettings
    from fashion_infer.board.queue.ray_graders import RayGraders
    from fashion_infer.board.service import create_app

    small.change(deadline=None)
    small.now = now()
    monkeypatch.setattr(dispatching, "KEEPING", 0.5)
    graders = RayGraders(board_trial.FAKE, cluster.address, 0)
    app = create_app(BoardSettings(data=os.path.dirname(small.store.engine.url.database)))
    small.dispatcher, small.client = Dispatcher(small.store, graders, "me"), fastapi.TestClient(app)
    yield small
    graders.close()
    app.state.store.close()


def until(board, true, seconds=120):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, (board.dispatcher._slots, states(board))
        board.dispatcher.step()
        time.sleep(0.05)


def states(board):
    """Return the number of jobs by state."""
    with board.store.read() as session:
        return dict(session.execute(select(JobRow.state, func.count()).group_by(JobRow.state)).all())


def waiting(board, identifier):
    with board.store.read() as session:
        return expectation.expected(session, queries.find(session, identifier, board.person(session, "Ann")))


def health(board):
    answer = board.client.get("/healthz")
    return answer.status_code, answer.json()["waiting_without_graders"]


def test_jobs_survive_the_loss_of_all_nodes(board: Kit, cluster):
    node = cluster.add_node(num_cpus=2, object_store_memory=100 << 20)
    until(board, lambda: board.dispatcher._slots.get("cpu") == 2)
    sent = [board.submit("Ann", f"seconds=3 {number}".encode()) for number in range(4)]
    until(board, lambda: len(board.dispatcher._began) == 2 and states(board) == {"running": 2, "queued": 2})
    assert waiting(board, sent[3]).start_in is not None and health(board) == (200, [])
    cluster.remove_node(node, allow_graceful=False)
    until(board, lambda: states(board) == {"queued": 4} and board.dispatcher._slots.get("cpu") == 0)
    assert health(board) == (503, ["cpu"])
    found = waiting(board, sent[3])
    assert (found.place, found.start_in, found.end_in) == (4, None, None)
    with board.store.read() as session:
        jobs = queries.queue(session, "cpu")
        assert expectation.slots_of(session, "cpu") == 0 and [job.start_in for job in jobs] == [None] * 4
    for _ in range(10):  # no job is passed to a cluster without a free slot for it
        board.dispatcher.step()
        time.sleep(0.05)
    assert states(board) == {"queued": 4}
    cluster.add_node(num_cpus=2, object_store_memory=100 << 20)
    until(board, lambda: states(board) == {"done": 4})
    assert health(board) == (200, [])
    with board.store.read() as session:
        assert sorted(session.scalars(select(Judgement.submission_id))) == sorted(sent)
        assert set(session.scalars(select(Judgement.status))) == {"judged"}


@pytest.mark.skipif(profiles.pick(True, False), reason="loses another node: part of make test-all")
def test_a_job_that_ray_holds_without_a_node_is_queued_again(board, cluster):
    """Otherwise Ray would hold the job until a new node comes."""
    node = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    until(board, lambda: board.dispatcher._slots.get("cpu") == 1)
    cluster.remove_node(node, allow_graceful=False)
    one = board.submit("Ann", b"seconds=0.1")
    board.dispatcher._kept = time.monotonic() + 3600  # pretend that the dispatcher has just checked its jobs
    until(board, lambda: states(board) == {"running": 1})
    board.dispatcher._kept = 0.0
    until(board, lambda: states(board) == {"queued": 1})
    with board.store.read() as session:
        lines = session.scalars(select(LogLine.text).where(LogLine.submission_id == one)).all()
        assert lines
        assert session.scalar(select(JobRow.attempts)) == 0  # the submission did not cause the loss
    cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    until(board, lambda: board.status(one) == "judged")
