"""The dispatcher's process. It is separate from the service, because Ray kills its process when Ray dies."""

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

from .. import BoardSettings, logs
from ..store.database import Store, url_of
from .dispatcher import Dispatcher
from .graders import Graders, LocalGraders

_log = logging.getLogger("fashion_infer.board.queue")
_CHECK = 10.0  # seconds between two checks whether graders can be started


def main() -> None:
    """Run the dispatcher until a signal, or until graders cannot be started."""
    settings = BoardSettings(**json.loads(sys.stdin.readline()))
    logs.begin(settings.json_logs)
    Path(settings.data).mkdir(parents=True, exist_ok=True)
    lock = open(Path(settings.data) / "dispatcher.lock", "w")  # noqa: SIM115, held until this process ends
    fcntl.flock(lock, fcntl.LOCK_EX)  # the dispatcher of a second service on the same folder waits here
    store = Store(url_of(settings.data, settings.database))
    try:
        graders = graders_of(settings)
    except Exception as error:  # Ray may raise any error, with a long message
        why = " ".join(str(error).split())[:300]
        _log.error("cannot start or join Ray", extra={"ray": settings.ray, "why": why})
        sys.exit(1)
    # Set the handlers only now, because Ray sets its own, which prints a stack trace.
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    threading.Thread(target=_watch, args=(graders,), daemon=True).start()
    Dispatcher(store, graders, owner_of(settings)).run(lambda: not (ended.is_set() or graders.broken))
    graders.close()
    store.close()
    if graders.broken:
        _log.error("the Ray node of this process is gone")
        sys.exit(1)


def graders_of(settings: BoardSettings) -> Graders:
    if settings.ray == "off":
        return LocalGraders(settings.grader, settings.cpu_slots)
    from .ray_graders import RayGraders

    return RayGraders(settings.grader, settings.ray, settings.cpu_slots)


def owner_of(settings: BoardSettings) -> str:
    """Return the dispatcher's name, a digest of machine and folder. The folder's lock ensures that it is unique."""
    return hashlib.sha256(f"{socket.gethostname()} {Path(settings.data).resolve()}".encode()).hexdigest()[:16]


def _watch(graders: Graders) -> None:
    """End this process when it can no longer start graders. The service then starts another process with a new Ray."""
    while True:
        time.sleep(_CHECK)
        if not graders.well():
            _log.error("Ray does not answer")
            os._exit(1)


if __name__ == "__main__":
    main()
