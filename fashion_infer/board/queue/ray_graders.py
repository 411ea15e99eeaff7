"""Graders on Ray: each job is a task that needs a GPU or, for a CPU class, a CPU.

Anyone who reaches Ray's ports can run code. A Ray that this module starts therefore listens only on the loopback and
requires a token, and the grader's sandbox has no network and no access to Ray's sockets in /tmp.
"""

import logging
import os
import secrets
import threading
from typing import Any, Dict, Iterator, Optional

from ..store.queue import Claimed
from . import graders
from .graders import Event, Graders

_OBJECTS = 100 << 20  # size in bytes of Ray's object store, for the tasks' inputs (jobs) and outputs (messages)
_ANSWER = 30.0  # time limit in seconds for Ray to report its resources


def _task(claimed: Claimed, command: Optional[str]):
    yield from graders.run(claimed, command)


class RayGraders(Graders):
    """Graders on a Ray cluster; the address "auto" starts Ray on this machine, with `cpu` CPU graders."""

    def __init__(self, command: Optional[str], address: str, cpu: int):
        super().__init__(command)
        local = address == "auto"
        if local:
            # Ray listens on all interfaces even if it is given a loopback address. This variable disables clusters, as
            # on macOS, and all of Ray's ports are then on the loopback.
            os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
            os.environ["RAY_AUTH_MODE"] = "token"
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray
        import ray.exceptions

        self._ray = ray
        common: Dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING}
        if local:
            # Without "local", Ray would join a cluster that already runs on this machine.
            ray.init("local", num_cpus=cpu, include_dashboard=False, object_store_memory=_OBJECTS, **common)
        else:
            ray.init(address=address, **common)
        # Ray does not retry tasks, because a second run would send all lines again. The dispatcher retries jobs.
        self._remote = ray.remote(max_retries=0, num_returns="streaming")(_task)
        self._running: Dict[str, Any] = {}
        self._lock = threading.Lock()

    def slots(self) -> Dict[str, int]:
        resources = self._ray.cluster_resources()
        return {"cpu": int(resources.get("CPU", 0)), "gpu": int(resources.get("GPU", 0))}

    def start(self, claimed: Claimed) -> None:
        needs = {"num_cpus": 0, "num_gpus": 1} if claimed.backend == "gpu" else {"num_cpus": 1}
        named = f"{claimed.submission} {claimed.purpose}"
        with self._lock:
            self._running[claimed.lease] = self._remote.options(name=named, **needs).remote(claimed, self._grader)
        super().start(claimed)

    def stop(self, lease: str) -> None:
        """Kill the worker of a job's task. Its grader is killed with it (see lifeline)."""
        with self._lock:
            task = self._running.get(lease)
        if task is not None:
            self._ray.cancel(task, force=True)

    def well(self) -> bool:
        if self.broken:
            return False
        answered = threading.Event()

        def ask() -> None:
            if self._ray.is_initialized() and self._ray.cluster_resources().get("CPU", 0) >= 0:
                answered.set()

        threading.Thread(target=ask, daemon=True).start()
        return answered.wait(_ANSWER)

    def close(self) -> None:
        self._ray.shutdown()

    def _events(self, claimed: Claimed) -> Iterator[Event]:
        with self._lock:
            task = self._running[claimed.lease]
        try:
            for reference in task:
                yield self._ray.get(reference)
        except self._ray.exceptions.LocalRayletDiedError:
            self.broken = True  # the node of this process is lost, and only a new process can join again
            raise
        finally:
            with self._lock:
                self._running.pop(claimed.lease, None)
