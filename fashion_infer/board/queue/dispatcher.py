"""The dispatcher: passes waiting jobs to graders, renews their leases, and writes their judgements."""

import logging
import time
from collections import Counter
from typing import Callable, Dict, List, Set

from sqlalchemy.exc import DBAPIError

from ..store import queue
from ..store.database import Store
from ..store.queries import waiting
from ..store.queue import Claimed
from ..store.types import now
from .grader import Event
from .graders import DIED, Graders, Said

_log = logging.getLogger("fashion_infer.board.queue")
PAUSE = 0.1  # seconds between two steps
REST = 1.0  # seconds after a grader's death
KEEPING = 5.0  # seconds between two renewals of the leases, which are valid for queue.LEASE


class Dispatcher:
    """Repeatedly starts a store's waiting jobs on graders, and writes the results to the store.

    Parameters
    ----------
    store
        The board's database.
    graders
        The graders that run the jobs.
    owner
        A name that no other running dispatcher has. `recover` returns jobs of an earlier dispatcher with the same name
        to the queue.
    """

    def __init__(self, store: Store, graders: Graders, owner: str):
        self._store, self._graders, self._owner = store, graders, owner
        self._running: Dict[str, Claimed] = {}
        self._unsaid: List[Said] = []  # messages that could not be written yet
        self._began: Set[str] = set()  # leases whose grader has sent a message
        # No job starts before this time. Otherwise a job that dies immediately would start ten times a second.
        self._rest = 0.0
        self._kept = 0.0
        self._slots: Dict[str, int] = {}

    def recover(self) -> int:
        """Return the jobs of an earlier dispatcher of the same name to the queue, and return their number."""
        with self._store.write() as session:
            return queue.recover(session, self._owner)

    def run(self, going: Callable[[], bool]) -> None:
        """Run while `going` returns True; wait while the database cannot be reached."""
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
        """Process the graders' messages, renew the leases, and fill the free slots, once."""
        self._unsaid += self._graders.said()
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
        """Start the next job of a backend, and return whether there was one."""
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
        except Exception as error:  # any Ray or transport error
            self._unsaid.append(Said(claimed.lease, Event(DIED, f"cannot start: {type(error).__name__}")))
        return True

    def _write(self) -> None:
        """Write the graders' messages in their order, and keep those that cannot be written for the next call."""
        said = [one for one in self._unsaid if one.lease in self._running]
        if not said:
            self._unsaid = []
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
                        queue.log(session, claimed.submission, [_words(claimed, event.outcome)])
                else:
                    # A death before the start is Ray's fault, not the submission's.
                    queue.give_back(session, lease, event.text, event.outcome, lease in self._began)
        self._unsaid = []
        for claimed, event in ended:
            del self._running[claimed.lease]
            self._began.discard(claimed.lease)
            if event.kind != "outcome":
                self._rest = time.monotonic() + REST
            _log.info("ended", extra={"submission": claimed.submission, "purpose": claimed.purpose, "how": event.kind})

    def _keep(self) -> None:
        """Renew leases, stop graders whose lease is no longer valid, and recover jobs of dead dispatchers."""
        slots = self._graders.slots()
        with self._store.write() as session:
            held = queue.renew(session, list(self._running))
            queue.recover(session)
            stranded = self._stranded(slots)
            for lease in stranded:
                queue.give_back(session, lease, "its grader is gone", counted=False)
            known = {state.backend for state in queue.states(session)}
            for backend, count in slots.items():
                if count or backend in known:  # a cluster may lose all its nodes
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
        """Return leases of the jobs that were started last, which Ray cannot run because nodes have left."""
        found: List[str] = []
        for backend, count in slots.items():
            leases = [lease for lease, claimed in self._running.items() if claimed.backend == backend]
            waiting = [lease for lease in leases if lease not in self._began]
            found += waiting[len(waiting) - max(0, min(len(leases) - count, len(waiting))) :]
        return found


def _words(claimed: Claimed, outcome: queue.JudgingOutcome) -> str:
    """Return the last line of a submission's log, which describes the outcome."""
    which = "" if claimed.purpose == "first" else f" ({claimed.purpose})"
    if outcome.status != "judged":
        return f"{outcome.status}{which}: {outcome.reason}"
    time_ms = f", Op Time {outcome.op_ms:.3f} ms" if outcome.op_ms is not None else ""
    ranked = "" if outcome.ranked else ", not ranked"
    return f"judged{which}: {outcome.points:g} of {outcome.out_of:g} points{time_ms}{ranked}"
