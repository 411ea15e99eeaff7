"""Load-tests a board: a whole class submits within a minute, while one reader loads pages.

    python scripts/board_load.py [--people 300] [--seconds 60] [--slots 8] [--ray auto|off] [--database sqlite|postgres]

All connections are on the loopback interface. The grader is fake: it only sleeps for 2 s. One person in ten submits
three times in a row. The script prints its measurements as JSON. The exit code is 0 if all targets are met:

- 99% of submissions are acknowledged in less than 1 s, and none is lost;
- a person's second or third submission never starts before an earlier first submission of another person;
- the median page time is below 100 ms;
- of the submissions that waited 10 s or more, at least 90% had a predicted wait within a factor of 2.
"""

import argparse
import contextlib
import json
import random
import re
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests
from sqlalchemy import select

sys.path.insert(0, str(Path(__file__).resolve().parent))
import board_trial

from fashion_infer.board.store.models import JobRow, Judgement, SubmissionRow

_OFTEN, _TIMES = 10, 3  # every tenth person submits three times
_GRADER = 2.0  # seconds that each fake grader takes
_ACKNOWLEDGED = 1.0  # limit of the 99th percentile of the time to acknowledgement, in seconds
_PAGE = 0.1


class Reader(threading.Thread):
    """A thread that loads the board's pages in turn, or requests from the API if the board has no pages."""

    def __init__(self, trial):
        super().__init__(daemon=True)
        self.session, self.trial = requests.Session(), trial
        self.stop = threading.Event()
        self.took = []
        person = trial.people[0]
        self.paths = ["/api/v1/ranking", "/api/v1/submissions", "/api/v1/queue"]
        self.session.headers["Authorization"] = f"Bearer {trial.tokens[person]}"
        shown = self.session.get(f"{trial.url}/login")
        if shown.status_code == 200:
            fields = dict(re.findall(r'name="(\w+)"[^>]*value="([^"]*)"', shown.text))
            answer = self.session.post(f"{trial.url}/login", data={**fields, "token": trial.tokens[person]})
            answer.raise_for_status()
            del self.session.headers["Authorization"]
            links = set(re.findall(r'href="(/[\w/-]*)"', answer.text))
            self.paths = sorted(path for path in links if "static" not in path and "log" not in path) or ["/"]

    def run(self):
        """Load pages until stopped."""
        while not self.stop.is_set():
            for path in self.paths:
                start = time.perf_counter()
                answer = self.session.get(self.trial.url + path)
                answer.raise_for_status()
                self.took.append(time.perf_counter() - start)
                self.stop.wait(0.2)


def hand_in(trial, person, at, number):
    """Submit at the time `at`. Return (seconds to the acknowledgement, identifier, predicted wait in seconds)."""
    time.sleep(max(0.0, at - time.monotonic()))
    start = time.perf_counter()
    answer = trial.ask(person, "POST", "/submissions", params={"name": "k.cu"}, data=f"{person} {number}".encode())
    took = time.perf_counter() - start
    answer.raise_for_status()
    found = answer.json()
    return took, found["id"], found["wait"]["start_in"] if found["wait"] else 0.0


def unfair(jobs):
    """Count pairs in which a person's later submission started before another person's first, submitted earlier."""
    nth, seen = {}, {}
    for one in sorted(jobs, key=lambda one: (one.queued_at, one.id)):
        seen[one.person_id] = nth[one.id] = seen.get(one.person_id, 0) + 1
    count = 0
    for late in jobs:
        if nth[late.id] > 1:
            count += sum(
                nth[first.id] == 1 and first.queued_at < late.queued_at and late.started_at < first.started_at
                for first in jobs
            )
    return count


def main() -> int:
    """Run the measurement; the exit code is 0 if all targets are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--ray", default="auto")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(board_trial.postgres()) if options.database == "postgres" else None
        trial = stack.enter_context(
            board_trial.trial(
                options.people,
                options=("--ray", options.ray, "--cpu-slots", str(options.slots)),
                database=database,
                seconds=_GRADER,
            )
        )
        return measure(trial, options)


def measure(trial, options) -> int:
    """Measure a running board, print the result and return the exit code."""
    warm_up(trial)
    rng = random.Random(0)
    begin = time.monotonic() + 1
    plan = []
    for number, person in enumerate(trial.people):
        at = begin + rng.uniform(0, options.seconds)
        plan += [(at + 0.01 * k, person, k) for k in range(_TIMES if number % _OFTEN == 0 else 1)]
    reader = Reader(trial)
    reader.start()
    with ThreadPoolExecutor(64) as pool:
        waiting = [pool.submit(hand_in, trial, person, at, number) for at, person, number in sorted(plan)]
        sent = [one.result() for one in waiting]
    reader.stop.set()
    reader.join()
    store = trial.store()
    end = time.monotonic() + 120 + len(plan) * _GRADER
    while time.monotonic() < end:
        with store.read() as session:
            left = session.scalar(select(JobRow.id).where(JobRow.state.in_(("queued", "running"))).limit(1))
        if left is None:
            break
        time.sleep(0.5)
    with store.read() as session:
        jobs = session.execute(
            select(JobRow.id, JobRow.submission_id, JobRow.queued_at, JobRow.started_at, SubmissionRow.person_id)
            .join(JobRow.submission)
            .where(SubmissionRow.id.in_([identifier for _, identifier, _ in sent]))
        ).all()
        judged = set(session.scalars(select(Judgement.submission_id)))
    store.close()
    acknowledged = sorted(took for took, _, _ in sent)
    real = {one.submission_id: (one.started_at - one.queued_at).total_seconds() for one in jobs if one.started_at}
    waits = [(said, real[identifier]) for _, identifier, said in sent if real.get(identifier, 0) >= 10]
    true = sum(0.5 <= said / took <= 2 for said, took in waits) / max(1, len(waits))
    found = {
        "people": options.people, "submissions": len(plan), "slots": options.slots, "ray": options.ray,
        "database": options.database, "acknowledged_p50_ms": 1e3 * statistics.median(acknowledged),
        "acknowledged_p99_ms": 1e3 * acknowledged[int(0.99 * len(acknowledged))],
        "acknowledged_max_ms": 1e3 * acknowledged[-1],
        "lost": len({identifier for _, identifier, _ in sent} - judged),
        "distinct": len({identifier for _, identifier, _ in sent}), "unfair_starts": unfair(jobs),
        "pages": len(reader.took), "page_p50_ms": 1e3 * statistics.median(reader.took),
        "page_max_ms": 1e3 * max(reader.took), "page_paths": reader.paths, "longest_wait_s": max(real.values()),
        "waits_of_10_s_or_more": len(waits), "said_within_factor_2": true,
    }  # fmt: skip
    print(
        json.dumps(
            {name: round(value, 3) if isinstance(value, float) else value for name, value in found.items()}, indent=1
        )
    )
    fine = (
        found["acknowledged_p99_ms"] < 1e3 * _ACKNOWLEDGED
        and not found["lost"]
        and found["distinct"] == len(plan)
        and not found["unfair_starts"]
        and found["page_p50_ms"] < 1e3 * _PAGE
        and true >= 0.9
    )
    return 0 if fine else 1


def warm_up(trial):
    """Judge one submission, so that workers run and the board has an estimate of a judging's duration."""
    answer = trial.ask("teacher", "POST", "/submissions", params={"name": "k.cu"}, data=b"warm up")
    identifier, status = answer.json()["id"], ""
    while status != "judged":
        time.sleep(0.3)
        status = trial.ask("teacher", "GET", f"/submissions/{identifier}").json()["status"]


if __name__ == "__main__":
    sys.exit(main())
