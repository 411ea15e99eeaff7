"""Graders on Ray: each submission is a task with a GPU, or with a CPU for a CPU class.

Ray is not a security boundary: anyone who reaches its ports can run code. A local Ray listens only on the loopback and
requires a token. The grader's sandbox has no network, and no access to Ray's sockets in /tmp.
"""

import logging
import os
import secrets
import threading
from typing import Any, Dict, Iterator, Optional

from ..store.queue import Claimed
from . import grader
from .grader import Event
from .graders import Graders

_OBJECTS = 100 << 20  # bytes of Ray's object store, which holds submissions (inputs of tasks) and lines (their outputs)
_ANSWER = 30.0  # seconds in which Ray must report its resources


def _task(claimed: Claimed, command: Optional[str]):
    yield from grader.run(claimed, command)


class OnRay(Graders):
    """Graders on a cluster.

    Parameters
    ----------
    address
        Address of a running cluster; "auto" starts a Ray on this machine that ends with this process.
    cpu
        Number of concurrent judgings of CPU classes, for a Ray that is started on this machine.
    """

    def __init__(self, command: Optional[str], address: str, cpu: int):
        super().__init__(command)
        local = address == "auto"
        if local:
            # Ray ignores a loopback address and listens on all interfaces. If this variable disables clusters, as Ray
            # does on macOS, all of its ports are on the loopback.
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
            # With an address other than "local", Ray would join a cluster that runs on this machine.
            ray.init("local", num_cpus=cpu, include_dashboard=False, object_store_memory=_OBJECTS,
                     **common)  # fmt: skip
        else:
            ray.init(address=address, **common)
        # The dispatcher retries instead of Ray, because a task that Ray ran again would send all lines twice.
        self._remote = ray.remote(max_retries=0, num_returns="streaming")(_task)
        self._running: Dict[str, Any] = {}
        self._lock = threading.Lock()

    def slots(self) -> Dict[str, int]:
        """Return the cluster's current resources."""
        resources = self._ray.cluster_resources()
        return {"cpu": int(resources.get("CPU", 0)), "gpu": int(resources.get("GPU", 0))}

    def start(self, claimed: Claimed) -> None:
        """Start a task."""
        needs = {"num_cpus": 0, "num_gpus": 1} if claimed.backend == "gpu" else {"num_cpus": 1}
        named = f"{claimed.submission} {claimed.purpose}"
        with self._lock:
            self._running[claimed.lease] = self._remote.options(name=named, **needs).remote(claimed, self._grader)
        super().start(claimed)

    def stop(self, lease: str) -> None:
        """Kill the task's worker; its grader dies with it."""
        with self._lock:
            task = self._running.get(lease)
        if task is not None:
            self._ray.cancel(task, force=True)

    def well(self) -> bool:
        """Return whether Ray answers."""
        if self.broken:
            return False
        answered = threading.Event()

        def ask() -> None:
            if self._ray.is_initialized() and self._ray.cluster_resources().get("CPU", 0) >= 0:
                answered.set()

        threading.Thread(target=ask, daemon=True).start()
        return answered.wait(_ANSWER)

    def close(self) -> None:
        """Disconnect from Ray, and end a local one."""
        self._ray.shutdown()

    def _events(self, claimed: Claimed) -> Iterator[Event]:
        with self._lock:
            task = self._running[claimed.lease]
        try:
            for reference in task:
                yield self._ray.get(reference)
        except self._ray.exceptions.LocalRayletDiedError:
            self.broken = True  # this process's own node is lost; only a new process gets another node
            raise
        finally:
            with self._lock:
                self._running.pop(claimed.lease, None)
