"""The dispatcher: starts graders for waiting jobs, renews the jobs' leases, and stores the judgements."""

import logging
import time
from collections import Counter
from typing import Callable, Dict, List, Set

from sqlalchemy.exc import DBAPIError

from ..store import queue
from ..store.database import Store
from ..store.models import FIRST, INCORRECT, JUDGED, now
from ..store.queries import waiting
from ..store.queue import Claimed
from .graders import DIED, Event, Graders, Message

_log = logging.getLogger("fashion_infer.board.queue")
PAUSE = 0.1  # pause in seconds between two steps
REST = 1.0  # seconds after the death of a grader in which no job is started
KEEPING = 5.0  # seconds between two renewals of the leases, each of which is valid for queue.LEASE


class Dispatcher:
    """Starts graders for waiting jobs, and writes their results. No two running ones may have the same `owner`."""

    def __init__(self, store: Store, graders: Graders, owner: str):
        self._store, self._graders, self._owner = store, graders, owner
        self._running: Dict[str, Claimed] = {}  # running jobs by lease
        self._unwritten: List[Message] = []  # graders' messages that are not yet written to the database
        self._began: Set[str] = set()  # leases whose grader has sent a message
        # No job starts before this time. Otherwise a job whose grader dies at once would start ten times a second.
        self._rest = 0.0
        self._kept = 0.0  # time of the last renewal of the leases
        self._slots: Dict[str, int] = {}  # number of graders by backend

    def recover(self) -> int:
        with self._store.write() as session:
            return queue.recover(session, self._owner)

    def run(self, going: Callable[[], bool]) -> None:
        """Call `step` repeatedly while `going` returns True. While the database cannot be reached, try it again."""
        recovered = False
        while going():
            try:
                if not recovered:
                    count = self.recover()
                    recovered = True
                    _log.info("the dispatcher begins", extra={"given_back": count, "slots": self._graders.slots()})
                self.step()
            except DBAPIError as error:
                _log.warning("the database failed: %s", str(error).splitlines()[0])
                time.sleep(1)
            time.sleep(PAUSE)

    def step(self) -> None:
        """Write the graders' messages, renew the leases if it is time, and start jobs for the free graders."""
        self._unwritten += self._graders.new_messages()
        self._write()
        if time.monotonic() >= self._kept + KEEPING:
            self._keep()
            self._kept = time.monotonic()
        busy = Counter(claimed.backend for claimed in self._running.values())
        if time.monotonic() < self._rest:
            return
        for backend, slots in self._slots.items():
            while busy[backend] < slots and self._start(backend):
                busy[backend] += 1

    def _start(self, backend: str) -> bool:
        with self._store.read() as session:
            if not waiting(session, backend):
                return False
        with self._store.write() as session:
            claimed = queue.claim(session, backend, self._owner)
        if claimed is None:
            return False
        self._running[claimed.lease] = claimed
        _log.info("started", extra={"submission": claimed.submission, "purpose": claimed.purpose})
        try:
            self._graders.start(claimed)
        except Exception as error:  # Ray may raise any error
            self._unwritten.append((claimed.lease, Event(DIED, f"cannot start: {type(error).__name__}")))
        return True

    def _write(self) -> None:
        """Write the graders' messages to the database in their order. If this fails, the next call writes them."""
        said = [(lease, event) for lease, event in self._unwritten if lease in self._running]
        if not said:
            self._unwritten = []
            return
        ended = []
        with self._store.write() as session:
            for lease, event in said:
                claimed = self._running[lease]
                if event.kind == "log":
                    self._began.add(lease)
                    queue.log(session, claimed.submission, [event.text])
                    continue
                ended.append((claimed, event))
                if event.kind == "outcome" and event.outcome is not None:
                    if queue.finish(session, lease, event.outcome):
                        queue.log(session, claimed.submission, [_outcome_line(claimed, event.outcome)])
                else:
                    # A grader that died before its first message does not count as an attempt: the fault is Ray's.
                    queue.give_back(session, lease, event.text, event.outcome, lease in self._began)
        self._unwritten = []
        for claimed, event in ended:
            del self._running[claimed.lease]
            self._began.discard(claimed.lease)
            if event.kind != "outcome":
                self._rest = time.monotonic() + REST
            _log.info("ended", extra={"submission": claimed.submission, "purpose": claimed.purpose, "how": event.kind})

    def _keep(self) -> None:
        """Renew leases, stop graders with invalid leases, recover jobs of dead dispatchers, and report the graders."""
        slots = self._graders.slots()
        with self._store.write() as session:
            held = queue.renew(session, list(self._running))
            queue.recover(session)
            stranded = self._stranded(slots)
            for lease in stranded:
                queue.give_back(session, lease, "its grader is gone", counted=False)
            for backend, count in slots.items():
                state = queue.state_of(session, backend)
                state.slots, state.seen_at = count, now()
        if {name for name, count in slots.items() if count} != {name for name, count in self._slots.items() if count}:
            _log.info("graders", extra={"slots": slots})
        self._slots = slots
        for lease in set(self._running) - set(held) | set(stranded):
            _log.info("stopped", extra={"submission": self._running[lease].submission})
            del self._running[lease]
            self._began.discard(lease)
            self._graders.stop(lease)

    def _stranded(self, slots: Dict[str, int]) -> List[str]:
        """Return the leases of jobs that Ray cannot run because nodes have left: the last ones without a message."""
        found: List[str] = []
        for backend, count in slots.items():
            leases = [lease for lease, claimed in self._running.items() if claimed.backend == backend]
            waiting = [lease for lease in leases if lease not in self._began]
            found += waiting[len(waiting) - max(0, min(len(leases) - count, len(waiting))) :]
        return found


def _outcome_line(claimed: Claimed, outcome: queue.JudgingOutcome) -> str:
    which = "" if claimed.purpose == FIRST else f" ({claimed.purpose})"
    if outcome.status not in (JUDGED, INCORRECT):
        return f"{outcome.status}{which}: {outcome.reason}"
    time_ms = f", Op Time {outcome.op_ms:.3f} ms" if outcome.op_ms is not None else ""
    return f"{outcome.status}{which}: {outcome.points:g} of {outcome.out_of:g} points{time_ms}"
