"""Cache of the queues, which all readers share. A queue is read from the database at most once a second."""

import threading
import time
from typing import Dict, List

from fastapi import Request
from sqlalchemy.orm import Session

from ..store import queries
from ..store.queries import QueuedJob

_FRESH, _OLD = 1.0, 5.0  # seconds


class QueueCache:
    """Cache of the queues of one service."""

    def __init__(self) -> None:
        self._known: Dict[str, List[QueuedJob]] = {}
        self._read: Dict[str, float] = {}
        self._lock = threading.Lock()

    def of(self, session: Session, backend: str) -> List[QueuedJob]:
        """Return a queue in its order: running jobs, then waiting ones."""
        # One reader reads the queue again; the others get the cached queue unless it is too old.
        if self._age(backend) > _FRESH and self._lock.acquire(blocking=self._age(backend) > _OLD):
            try:
                if self._age(backend) > _FRESH:
                    self._known[backend] = queries.queue(session, backend)
                    self._read[backend] = time.monotonic()
            finally:
                self._lock.release()
        return self._known[backend]

    def forget(self) -> None:
        """Drop the cached queues, after something was submitted or cancelled."""
        with self._lock:
            self._read.clear()

    def _age(self, backend: str) -> float:
        return time.monotonic() - self._read.get(backend, float("-inf"))


def queues(request: Request) -> QueueCache:
    """Return the service's cache of queues."""
    return request.app.state.queues
