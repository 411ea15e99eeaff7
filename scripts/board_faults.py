"""Kills parts of a board at random while people submit, and checks that each acknowledged submission is judged once.

    python scripts/board_faults.py [--rounds 200] [--database sqlite|postgres] [--ray cluster|auto|off] [--seed N]

Each round waits until a grader runs, and then strikes one of these at random: the service, the dispatcher, a grader's
worker process, a Ray node (of a cluster of three on this machine; with `--ray auto`, of the Ray that the service
starts), or the database (PostgreSQL: all connections are cut; SQLite: the file is locked for 2 s). The service is
restarted, as systemd does. Meanwhile people keep submitting. A submission that was not acknowledged is sent again with
the same identifier. The exit code is 0 if every acknowledged submission has exactly one judgement, and it is the
judgement of that submission.
"""

import argparse
import collections
import contextlib
import os
import random
import signal
import sqlite3
import sys
import threading
import time
import uuid
from pathlib import Path

import psutil
import requests
from sqlalchemy import create_engine, func, select, text

sys.path.insert(0, str(Path(__file__).resolve().parent))
import board_trial

from fashion_infer.board.store.models import JobRow, Judgement, SubmissionRow

_PEOPLE = 12
_GRADER = 0.6  # duration of a fake grader's run, in seconds


class Submitters(threading.Thread):
    """A thread that submits for the people in turn until it is stopped."""

    def __init__(self, trial, rng, pause):
        super().__init__(daemon=True)
        self._trial, self._rng, self._pause = trial, rng, pause
        self.stop = threading.Event()
        self.acknowledged = {}  # maps a submission's identifier to the time in its text
        self.sent_again = 0

    def run(self):
        """Submit until `stop` is set."""
        number = 0
        while not self.stop.is_set():
            number += 1
            person = self._trial.people[number % len(self._trial.people)]
            ms = number + 0.5
            query = {"name": "k.cu", "key": uuid.uuid4().hex}
            while not self.stop.is_set():
                with contextlib.suppress(requests.RequestException):
                    answer = self._trial.ask(person, "POST", "/submissions", params=query, data=f"ms={ms}".encode())
                    if answer.status_code in (200, 201):
                        self.acknowledged[answer.json()["id"]] = ms
                        break
                    if answer.status_code == 429:  # this person has reached a limit: no need to send more
                        break
                    if answer.status_code < 500:
                        raise RuntimeError(f"{answer.status_code}: {answer.text}")
                self.sent_again += 1
                time.sleep(0.2)
            self.stop.wait(self._rng.uniform(0.5, 1.5) * self._pause)


def family(trial):
    """Return the PIDs of the board's processes and of its Ray's processes, by kind. All descend from this process."""
    found = collections.defaultdict(list)
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            line = " ".join(one.cmdline())
            if "queue.process" in line and "lifeline" not in line:
                found["dispatcher"].append(one.pid)
            elif "fake_grader" in line and "serve" not in line:
                found["grader"].append(one.pid)
                found["worker"].append(one.pid)
            elif line.startswith("ray::"):
                found["worker"].append(one.pid)
            elif "raylet/raylet" in line or "gcs_server" in line.split(" ")[0]:
                found["node"].append(one.pid)
    return found


def strike(trial, what, rng, database):
    """Kill one part of the board, or disturb its database. Return False if no process of that kind was running."""
    if what == "service":
        trial.process.kill()
        trial.process.wait()
        trial.start()
        return True
    if what == "database":
        cut(trial, database)
        return True
    if what == "node" and trial.cluster is not None:
        trial.cluster.strike(rng)
        return True
    there = family(trial)[what]
    if not there:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(rng.choice(there), signal.SIGKILL)
    return True


def cut(trial, database):
    """Cut every connection to PostgreSQL, or lock SQLite's file for two seconds."""
    if database:
        engine = create_engine(database.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> "
                    "pg_backend_pid() AND backend_type = 'client backend'"
                )
            )
        engine.dispose()
        return
    with contextlib.closing(sqlite3.connect(trial.folder / "data" / "board.sqlite", timeout=30)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        time.sleep(2)
        connection.rollback()


def patient(what, seconds):
    """Call `what` until it returns true or the time is up. Return whether it did. Exceptions are ignored."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(Exception):
            if what():
                return True
        time.sleep(0.1)
    return False


def wrongs(store, acknowledged):
    """Return one line per violation of the rule that each acknowledged submission is judged exactly once."""
    found = []
    with store.read() as session:
        judged = collections.defaultdict(list)
        for one in session.scalars(select(Judgement)):
            judged[one.submission_id].append(one)
        status = dict(session.execute(select(SubmissionRow.id, SubmissionRow.status)).all())
    for identifier, ms in acknowledged.items():
        ends = judged.get(identifier, [])
        if len(ends) != 1 or ends[0].status != "judged" or ends[0].op_ms != ms:
            found.append(f"{identifier}: {status.get(identifier, 'lost')}, {[(one.status, one.op_ms) for one in ends]}")
    for identifier in set(status) - set(acknowledged):
        # This submission was stored, but its acknowledgement was lost, and the run ended before it was sent again. It
        # must also be judged once.
        if len(judged.get(identifier, [])) != 1:
            found.append(f"{identifier}: stored, not acknowledged, {len(judged.get(identifier, []))} judgements")
    return found


def rounds(
    trial,
    count,
    rng,
    database=None,
    kinds=("service", "dispatcher", "worker", "node", "database"),
    say=print,
    pause=0.7,
    calm=4.0,
    minutes=1e9,
):
    """Run `count` rounds. Print how often each part was struck, and return one line per violation."""
    store = trial.store()
    people = Submitters(trial, rng, pause)
    people.start()
    struck = collections.Counter()
    idle = 0
    end = time.monotonic() + 60 * minutes
    for number in range(count):
        if time.monotonic() > end:
            say(f"the time is up after {number} rounds")
            break
        if trial.cluster is not None:
            trial.cluster.mend()
        idle += not patient(lambda: family(trial)["grader"], 90)
        # Sometimes pause long enough for work to finish: Ray takes 5 to 10 s to restart.
        time.sleep(rng.uniform(0, calm))
        what = rng.choice(kinds)
        while not strike(trial, what, rng, database):
            what = rng.choice(kinds)
        struck[what] += 1
        if number % 10 == 9:
            say(f"{number + 1} rounds, {len(people.acknowledged)} acknowledged, {people.sent_again} sent again")
    people.stop.set()
    people.join()

    def all_in():
        if trial.cluster is not None:
            trial.cluster.mend()
        with store.read() as session:
            return not session.scalar(
                select(func.count()).select_from(JobRow).where(JobRow.state.in_(("queued", "running")))
            )

    found = [] if patient(all_in, 600) else ["the queue does not drain"]
    found += wrongs(store, people.acknowledged)
    with store.read() as session:
        again = session.scalar(select(func.sum(JobRow.attempts)))
    say(
        f"struck {dict(struck)}; {len(people.acknowledged)} acknowledged, {people.sent_again} sendings unanswered, "
        f"{again} graders died, {idle} rounds found nothing running, {len(found)} wrong"
    )
    store.close()
    return found


class Cluster:
    """A Ray cluster of three nodes on this machine: the head, which runs nothing, and two with one CPU each."""

    def __init__(self):
        from ray.cluster_utils import Cluster as RayCluster

        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        self._cluster = RayCluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": 100 << 20},
        )
        self._nodes = [self._added(), self._added()]
        self.address = self._cluster.address

    def _added(self):
        return self._cluster.add_node(num_cpus=1, object_store_memory=100 << 20, wait=False)

    def strike(self, rng):
        """Kill a node with everything that runs on it, and start another one."""
        node = self._nodes.pop(rng.randrange(len(self._nodes)))
        self._cluster.remove_node(node, allow_graceful=False)
        self._nodes.append(self._added())

    def mend(self):
        """Replace a node that Ray has declared dead without our doing, which happens on a busy machine."""
        for node in [node for node in self._nodes if node.dead_processes()]:
            self._nodes.remove(node)
            self._cluster.remove_node(node, allow_graceful=False)
            self._nodes.append(self._added())

    def close(self):
        """Stop the cluster."""
        self._cluster.shutdown()


def main() -> int:
    """Run the rounds; the exit code is 0 if there are no violations."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--ray", choices=["cluster", "auto", "off"], default="cluster")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no round after this time")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    kinds = ["service", "dispatcher", "worker", "database", *(["node"] if options.ray != "off" else [])]
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(board_trial.postgres()) if options.database == "postgres" else None
        os.environ["FAKE_GRADER_SECONDS"] = str(_GRADER)  # for graders on nodes not started by the service
        cluster = Cluster() if options.ray == "cluster" else None
        if cluster is not None:
            stack.callback(cluster.close)
        words = ("--ray", cluster.address if cluster is not None else options.ray, "--cpu-slots", "2")
        limits = ("--most-an-hour", "1000000", "--most-pending", "3")
        trial = stack.enter_context(
            board_trial.trial(_PEOPLE, options=words, database=database, seconds=_GRADER, limits=limits)
        )
        trial.cluster = cluster
        found = rounds(
            trial,
            options.rounds,
            random.Random(seed),
            database,
            kinds,
            lambda line: print(line, flush=True),
            minutes=options.minutes,
        )
        if found:
            print((trial.folder / "log").read_text()[-5000:], file=sys.stderr)
    print("\n".join(found) or "every acknowledged submission is judged once")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
