"""The interface of graders, and graders without Ray: processes on this machine, each followed by a thread."""

import queue
import threading
from typing import Dict, Iterator, List, NamedTuple, Optional, Set

from ..store.queue import Claimed
from . import grader
from .grader import Event

DIED = "died"  # kind of the event of a grader that ended without another last message


class GraderMessage(NamedTuple):
    lease: str
    event: Event


class Graders:
    """Runs graders with a command (see `grader.command_of`). Subclasses implement where they run."""

    def __init__(self, grader: Optional[str]):
        self._grader = grader
        self.broken = False  # True if this process can no longer start graders
        self._messages: queue.SimpleQueue[GraderMessage] = queue.SimpleQueue()

    def slots(self) -> Dict[str, int]:
        """Return the largest number of graders that can run at the same time, by backend."""
        raise NotImplementedError

    def start(self, claimed: Claimed) -> None:
        """Start a grader for a job. `new_messages` returns its messages, the last of which is not of the kind "log"."""
        events = self._events(claimed)
        threading.Thread(target=self._follow, args=(claimed.lease, events), daemon=True).start()

    def stop(self, lease: str) -> None:
        raise NotImplementedError

    def new_messages(self) -> List[GraderMessage]:
        found = []
        while True:
            try:
                found.append(self._messages.get_nowait())
            except queue.Empty:
                return found

    def well(self) -> bool:
        return not self.broken

    def close(self) -> None:
        """End all graders."""

    def _events(self, claimed: Claimed) -> Iterator[Event]:
        raise NotImplementedError

    def _follow(self, lease: str, events: Iterator[Event]) -> None:
        ended = False
        try:
            for event in events:
                ended = ended or event.kind != "log"
                self._messages.put(GraderMessage(lease, event))
        except Exception as error:  # of any kind, because the dispatcher waits for a last message
            why = " ".join(str(error).split())[:200] or type(error).__name__
            if not ended:
                self._messages.put(GraderMessage(lease, Event(DIED, f"{type(error).__name__}: {why}")))
                return
        if not ended:
            self._messages.put(GraderMessage(lease, Event(DIED, "the grader ended without an outcome")))


class LocalGraders(Graders):
    """Graders on this machine, without Ray: at most `cpu` and `gpu` at once."""

    def __init__(self, grader: Optional[str], cpu: int, gpu: int = 0):
        super().__init__(grader)
        self._slots = {"cpu": cpu, "gpu": gpu}
        self._processes: Dict[str, int] = {}
        self._stopped: Set[str] = set()
        self._lock = threading.Lock()

    def slots(self) -> Dict[str, int]:
        return dict(self._slots)

    def stop(self, lease: str) -> None:
        """Kill the grader of the job with a lease, now or, if it has not started yet, as soon as it starts."""
        with self._lock:
            self._stopped.add(lease)
            if lease in self._processes:
                grader.end(self._processes[lease])

    def _events(self, claimed: Claimed) -> Iterator[Event]:
        def started(process: int) -> None:
            with self._lock:
                self._processes[claimed.lease] = process
                if claimed.lease in self._stopped:
                    grader.end(process)

        try:
            yield from grader.run(claimed, self._grader, started=started)
        finally:
            with self._lock:
                self._processes.pop(claimed.lease, None)
                self._stopped.discard(claimed.lease)
