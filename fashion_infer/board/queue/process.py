"""The dispatcher's process. Ray ends a process whose Ray died: it is not to be the service's."""

import fcntl
import hashlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from .. import logs
from ..settings import BoardSettings
from ..store.database import Store, url_of
from .dispatcher import Dispatcher
from .graders import Graders, Here

_log = logging.getLogger("fashion_infer.board.queue")
_CHECK = 10.0  # seconds between two looks whether Ray is well


def main() -> None:
    """Dispatch until a signal: the settings are a line of JSON on stdin."""
    settings = BoardSettings(**json.loads(sys.stdin.readline()))
    logs.begin()
    Path(settings.data).mkdir(parents=True, exist_ok=True)
    with open(Path(settings.data) / "dispatcher.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second service on the same folder waits here, until the first is gone
        dispatch(settings)


def dispatch(settings: BoardSettings) -> None:
    """Dispatch, as the only one of this folder."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.signal(signal.SIGINT, lambda *_: ended.set())
    store = Store(url_of(settings.data, settings.database))
    try:
        graders = graders_of(settings)
    except Exception as error:  # of Ray's: what it says goes on for pages
        why = " ".join(str(error).split())[:300]
        _log.error("Ray does not start, or cannot be joined", extra={"ray": settings.ray, "why": why})
        sys.exit(1)
    threading.Thread(target=_watch, args=(graders,), daemon=True).start()
    Dispatcher(store, graders, owner_of(settings)).run(lambda: not (ended.is_set() or graders.broken))
    graders.close()
    store.close()
    if graders.broken:
        _log.error("this process's node of Ray is gone")
        sys.exit(1)


def graders_of(settings: BoardSettings) -> Graders:
    """Where graders run."""
    if settings.ray == "off":
        return Here(settings.grader, settings.cpu_slots)
    from .ray_graders import OnRay

    return OnRay(settings.grader, settings.ray, settings.cpu_slots)


def owner_of(settings: BoardSettings) -> str:
    """The name of the one dispatcher that this machine and folder can have: the lock sees to it."""
    return hashlib.sha256(f"{socket.gethostname()} {Path(settings.data).resolve()}".encode()).hexdigest()[:16]


def _watch(graders: Graders) -> None:
    """End this process when graders cannot be started any more: whoever started it starts another, with a fresh Ray."""
    while True:
        time.sleep(_CHECK)
        if not graders.well():
            _log.error("Ray does not answer")
            os._exit(1)


if __name__ == "__main__":
    main()
