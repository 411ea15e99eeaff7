"""A cache of the queues for all readers. Each queue is normally read from the database at most once a second."""

import threading
import time
from typing import Dict, List

from fastapi import Request
from sqlalchemy.orm import Session

from ..store import queries
from ..store.queries import QueuedJob

_FRESH = 1.0  # age in seconds up to which a cached queue is used
_OLD = 5.0  # age in seconds from which a reader waits while another one reads the queue again


class QueueCache:
    def __init__(self) -> None:
        self._known: Dict[str, List[QueuedJob]] = {}
        self._read: Dict[str, float] = {}
        self._lock = threading.Lock()

    def of(self, session: Session, backend: str) -> List[QueuedJob]:
        """Return a backend's queue in its order: running jobs, then waiting jobs."""
        # One reader reads the queue from the database. The others get the cached queue, or wait if it is too old.
        if self._age(backend) > _FRESH and self._lock.acquire(blocking=self._age(backend) > _OLD):
            try:
                if self._age(backend) > _FRESH:
                    self._known[backend] = queries.queue(session, backend)
                    self._read[backend] = time.monotonic()
            finally:
                self._lock.release()
        return self._known[backend]

    def forget(self) -> None:
        """Let the next reader read the queues again, because a submission was added or cancelled."""
        with self._lock:
            self._read.clear()

    def _age(self, backend: str) -> float:
        return time.monotonic() - self._read.get(backend, float("-inf"))


def queues(request: Request) -> QueueCache:
    return request.app.state.queues
