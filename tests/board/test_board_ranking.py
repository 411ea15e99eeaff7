"""The ranking and its final runs, compared with expected results that were computed by hand."""

import csv
import io
import json
import statistics
from datetime import timedelta

import pytest
from sqlalchemy import select

from fashion_infer.board import marks
from fashion_infer.board.store import admission, final_runs, people, queue
from fashion_infer.board.store.models import Class, Person, now
from fashion_infer.board.store.ranking import likenesses, ranking
from fashion_infer.errors import UsageError


@pytest.fixture
def kit(small):
    return small


def ranked(kit, viewer=None, **where):
    """Return (name, ms, final) for each place of the ranking as the viewer sees it."""
    with kit.store.read() as session:
        who = kit.person(session, viewer) if viewer else None
        return [(one.name, one.op_ms, one.final) for one in ranking(session, kit.of_class(session), who)]


def submit_and_judge(kit, who, *times, **outcome):
    """For each of these times, submit as one person and judge the submission; return the submissions' identifiers."""
    found = []
    for ms in times:
        found.append(kit.submit(who))
        assert kit.judge(ms, **outcome) == found[-1]
    return found


def run_finals(kit, leaders, runs):
    """Queue the final runs of the best `leaders` submissions, and judge `runs` of them in the queue's order.

    `runs` has the time of each run in ms, or None for an incorrect run. The Layer Time is twice the Op Time.
    """
    with kit.store.write() as session:
        assert final_runs.queue_leaders(session, kit.of_class(session), leaders)
    for ms in runs:
        kit.judge(ms or 1.0, status="judged" if ms else "incorrect", ranked=bool(ms), layer_ms=2 * (ms or 1.0))


def test_each_persons_best_counts_and_ties_go_to_the_earlier(kit):
    kit.change(names_open=True)
    submit_and_judge(kit, "Ann", 9.0, 5.0, 7.0)
    submit_and_judge(kit, "Bob", 3.0)
    submit_and_judge(kit, "Cid", 3.0)
    submit_and_judge(kit, "Ada", 0.5, ranked=False)
    submit_and_judge(kit, "Ina", 0.1, status="refused", ranked=False)
    assert ranked(kit) == [("Bob", 3.0, False), ("Cid", 3.0, False), ("Ann", 5.0, False)]


def test_a_team_has_one_place(kit):
    kit.change(names_open=True)
    with kit.store.write() as session:
        people.join(session, kit.of_class(session), [("Ann", "", "red"), ("Bob", "", "red")])
    submit_and_judge(kit, "Ann", 4.0)
    submit_and_judge(kit, "Bob", 2.0)
    submit_and_judge(kit, "Cid", 3.0)
    assert ranked(kit) == [("red", 2.0, False), ("Cid", 3.0, False)]


@pytest.mark.parametrize("viewer, named, readable", [
    (None, False, False), ("Bob", False, False), ("Ann", True, True), ("Ada", True, True), ("Ina", True, True),
    ("stranger", False, False),
])  # fmt: skip
@pytest.mark.parametrize("open_", [False, True])
def test_who_sees_names_and_submissions(kit, viewer, named, readable, open_):
    kit.change(names_open=open_)
    (one,) = submit_and_judge(kit, "Ann", 4.0)
    with kit.store.write() as session:
        other = people.new_class(session, "d", "fa2017", "cpu", "")
        (joined,) = people.join(session, other, [("X", "instructor", "")])
        kit.people["stranger"] = joined.person.id
    with kit.store.read() as session:
        who = session.get(Person, kit.people[viewer]) if viewer else None
        (place,) = ranking(session, session.get(Class, kit.class_id), who)
    assert (place.name == "Ann", place.submission_id == one) == (named or open_, readable)
    assert place.own == (viewer == "Ann")


def test_leaders_are_ranked_by_the_median_of_their_final_runs(kit):
    kit.change(names_open=True)
    for who, ms in ("Ann", 1.0), ("Bob", 2.0), ("Cid", 3.0):
        submit_and_judge(kit, who, ms, layer_ms=7.0)
    runs = [[6.0, 4.0, 9.0, 5.0, 8.0], [3.0, 7.0, None, 4.5, None]]  # three correct runs, as Bob has, are enough
    run_finals(kit, 2, [ms for both in zip(*runs) for ms in both])
    medians = [statistics.median(ms for ms in one if ms) for one in runs]
    assert ranked(kit) == [("Bob", medians[1], True), ("Ann", medians[0], True), ("Cid", 3.0, False)]
    with kit.store.read() as session:
        layers = [one.layer_ms for one in ranking(session, kit.of_class(session), None)]
        alike = likenesses(session, kit.of_class(session))
    assert layers == [2 * medians[1], 2 * medians[0], 7.0]
    # Ann's runs are more than 1.5 ms apart, and Cid has no final runs.
    assert [alike["person", kit.people[who]].tied for who in ("Bob", "Ann", "Cid")] == [False, True, False]


def test_the_same_file_and_times_within_the_noise_are_marked(kit):
    given = {"Ann": (1.0, b"int x;\n"), "Bob": (1.3, b"int  x;"), "Cid": (1.35, b"int y;")}
    for who, (ms, content) in given.items():
        kit.submit(who, content)
        times = [{"n": n, "op": ms / 2, "spread": spread} for n, spread in ((9, 0.1), (9, None), (8, 5.0))]
        kit.judge(ms, verdict=json.dumps({"times": times}))
    with kit.store.read() as session:
        alike = likenesses(session, kit.of_class(session))
        rows = list(csv.DictReader(io.StringIO(marks.as_csv(session, kit.of_class(session)))))
    found = [alike["person", kit.people[who]] for who in given]
    assert [one.tied for one in found] == [False, False, True]
    assert [one.same_file for one in found] == [[("person", kit.people[who])] for who in ("Bob", "Ann")] + [[]]
    assert [(row["same_file_as"], row["tied_with_place_above"]) for row in rows] == [
        ("Bob", "0"),
        ("Ann", "0"),
        ("", "1"),
    ]


def test_with_fewer_than_three_correct_runs_the_next_best_counts(kit):
    kit.change(names_open=True)
    submit_and_judge(kit, "Ann", 1.0, 2.5)
    submit_and_judge(kit, "Bob", 2.0)
    run_finals(kit, 1, [1.0, None, None, None])
    assert ranked(kit)[0] == ("Ann", 1.0, False)  # four of five final runs: the result is not final yet
    kit.judge(1.0)
    assert ranked(kit) == [("Bob", 2.0, False), ("Ann", 2.5, False)]


def test_tests_change_neither_ranking_nor_exports_nor_final_runs(kit):
    kit.change(deadline=None)
    (one,) = submit_and_judge(kit, "Ann", 3.0)

    def seen():
        with kit.store.read() as session:
            of = kit.of_class(session)
            return [ranking(session, of, None), *(marks.as_csv(session, of, kind) for kind in marks.FORMATS)]

    before = seen()
    for who in ("Ann", "Bob"):
        test = kit.submit(who, test=True)
        assert kit.judge(1.0, points=99.0, seconds=60.0) == test and kit.status(test) == "judged"
    assert seen() == before
    with kit.store.write() as session:
        assert not final_runs.close(session, kit.of_class(session))
    kit.submit("Cid", test=True)
    with kit.store.write() as session:
        final_runs.check(session, kit.of_class(session))  # although a test waits
        assert final_runs.queue_leaders(session, kit.of_class(session), 10) == [one]
        queue.state_of(session, "cpu").slots = 2
        assert final_runs.seconds_left(session, kit.of_class(session)) == 2.5  # five runs of a second


def test_a_class_closes_after_all_final_runs(kit):
    kit.change(deadline=None)

    def close():
        with kit.store.write() as session:
            return final_runs.close(session, kit.of_class(session))

    submit_and_judge(kit, "Ann", 1.0)
    assert not close()  # no final run is queued yet
    run_finals(kit, 1, [1.0] * 4)
    assert not close()
    with kit.store.write() as session:
        assert final_runs.runs_left(session, kit.of_class(session)) == 1
        assert final_runs.queue_leaders(session, kit.of_class(session), 1) == []  # all five runs are queued already
    kit.judge(1.0)
    assert close()
    with kit.store.read() as session:
        assert kit.of_class(session).finalised_at is not None


def test_final_runs_of_another_class_do_not_count(kit):
    first = kit.class_id
    submit_and_judge(kit, "Ann", 1.0)
    with kit.store.write() as session:
        other = people.new_class(session, "d", "fa2017", "cpu", "")
        (joined,) = people.join(session, other, [("X", "", "")])
        kit.people["X"], kit.class_id = joined.person.id, other.id
    submit_and_judge(kit, "X", 1.0)
    run_finals(kit, 1, [1.0] * 4)
    with kit.store.write() as session:
        assert final_runs.runs_left(session, session.get(Class, first)) == 0
        assert final_runs.runs_left(session, session.get(Class, kit.class_id)) == 1
    kit.judge(1.0)
    with kit.store.write() as session:
        assert not final_runs.close(session, session.get(Class, first))
        assert final_runs.close(session, session.get(Class, kit.class_id))


def test_final_runs_need_a_passed_deadline_and_an_empty_queue(kit):
    kit.change(deadline=now() + timedelta(hours=1))
    with kit.store.read() as session, pytest.raises(UsageError):
        final_runs.check(session, kit.of_class(session))
    kit.change(deadline=None)
    kit.submit("Ann")
    with kit.store.read() as session, pytest.raises(UsageError):
        final_runs.check(session, kit.of_class(session))
    kit.judge(1.0)
    with kit.store.read() as session:
        final_runs.check(session, kit.of_class(session))


def test_final_runs_do_not_use_a_persons_device_seconds(kit):
    kit.change(gpu_seconds=100.0, deadline=None)
    submit_and_judge(kit, "Ann", 1.0, seconds=20.0)

    def left():
        with kit.store.read() as session:
            ann = session.scalar(select(Person).where(Person.name == "Ann"))
            return admission.gpu_seconds_left(session, ann, kit.now)

    assert left() == 80.0
    run_finals(kit, 1, [1.0, 1.0])
    kit.claim()
    kit.pass_time(30)  # a final run is running
    assert left() == 80.0
