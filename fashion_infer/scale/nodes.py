"""Connects to a Ray cluster or starts one, and ends the workers of nodes that die."""

import _thread
import contextlib
import logging
import os
import socket
import sys
import threading
import time
from typing import Any, Dict, Iterator, List, Set, TextIO, cast

from ..errors import DeviceError, UsageError
from ..system.text import one_line

AUTO = "auto"
_ANSWER = 5.0  # time limit in seconds for the answer of a head node's port; Ray itself would try for a minute
# Environment variables that disable usage reports and needless warnings, and prevent Ray Data's thread from starting
# Ray again after we have shut it down.
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ENABLE_AUTO_CONNECT": "0",
}
_LOOK = 1.0  # seconds between two checks of the nodes
_STORE = 1 << 30  # size in bytes of the object store of a Ray that we start; pixels wait in it for a GPU


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """Return a context with a connection to HOST:PORT or "auto"; DeviceError if no Ray of this version answers."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        yield
        return
    try:
        with _silent():
            _connect(ray, address)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise DeviceError(f"cannot join a Ray cluster at {address} ({one_line(error)})") from None
    hush()
    stdout, sys.stdout = sys.stdout, cast(TextIO, _OutputWithoutRay(sys.stdout))
    try:
        yield
    finally:
        sys.stdout = stdout
        ray.shutdown()


@contextlib.contextmanager
def explained() -> Iterator[None]:
    import ray

    try:
        yield
    except ray.exceptions.RayError as error:
        said = " ".join(str(error).split())[:200]
        raise DeviceError(f"the Ray cluster failed ({said}): run the same command again when it works") from None


class _OutputWithoutRay:
    """Standard output without the messages that Ray's threads print about workers and nodes that die."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if threading.current_thread().name.startswith("ray_"):
            return len(text)
        return self._stream.write(text)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Return a context that discards stderr, to which Ray's C++ code prints its log level. Failures still raise."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _connect(ray: Any, address: str) -> None:
    options = {"log_to_driver": False, "logging_level": logging.CRITICAL, "configure_logging": True}
    if address != AUTO:
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdecimal() or "/" in host:
            raise UsageError(f"--ray takes auto or HOST:PORT of a head node, not {address}")
        with contextlib.closing(socket.create_connection((host.strip("[]"), int(port)), _ANSWER)):
            pass
        ray.init(address=address, **options)
        return
    try:
        ray.init(address=AUTO, **options)
    except ConnectionError:
        cores = len(os.sched_getaffinity(0))
        ray.init(address="local", num_cpus=cores, include_dashboard=False, object_store_memory=_STORE, **options)


def hush() -> None:
    """Stop Ray's messages except those to its log files. Users get this package's messages of one line instead."""
    for name in ("ray", "ray.data"):
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
                handler.setLevel(logging.CRITICAL + 1)


def alive() -> Dict[str, Dict[str, float]]:
    import ray

    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def shares(backend: str, threads: int) -> int:
    resource, each = ("GPU", 1) if backend == "gpu" else ("CPU", threads)
    return sum(int(resources.get(resource, 0) // each) for resources in alive().values())


class Register:
    """A Ray actor that records which workers are on which node, and how often each block has been started."""

    def __init__(self) -> None:
        self._workers: Dict[str, List[Any]] = {}
        self._begun: Dict[int, int] = {}

    def add(self, node: str, worker: Any) -> None:
        self._workers.setdefault(node, []).append(worker)

    def take(self, nodes: Set[str]) -> List[Any]:
        return [worker for node in nodes for worker in self._workers.pop(node, [])]

    def begin(self, block: int) -> int:
        self._begun[block] = self._begun.get(block, 0) + 1
        return self._begun[block]

    def ready(self) -> bool:
        """Return True. A caller that gets the answer knows that the actor has started."""
        return True


class Watch:
    """Ends the workers of nodes that have died, because Ray would wait for these nodes to come back."""

    def __init__(self, patience: float):
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # Run the actor on this process's node, so that the actor fails only if this process ends, too.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        register: Any = ray.remote(num_cpus=0)(Register)
        self.register = register.options(scheduling_strategy=here).remote()
        ray.get(self.register.ready.remote())
        self._seen, self._lost = set(alive()), set()  # type: Set[str], Set[str]
        self._patience, self._heard, self._over = patience, time.monotonic(), False

    def heard(self) -> None:
        self._heard = time.monotonic()

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Return a context that checks the nodes once a second; DeviceError if some died and the others stop."""
        done = threading.Event()
        thread = threading.Thread(target=self._run, args=(done,), name="watch", daemon=True)
        thread.start()
        try:
            yield
        except KeyboardInterrupt:
            if not self._over:
                raise
            raise DeviceError(
                "nodes of the Ray cluster died, and no block was finished since: run the same command again when the "
                "cluster has nodes"
            ) from None
        finally:
            done.set()
            thread.join()

    def _run(self, done: threading.Event) -> None:
        import ray

        while not done.wait(_LOOK):
            try:
                stuck = self._look() and time.monotonic() - self._heard > self._patience
            except ray.exceptions.RayError:  # the node of this process failed, or Ray on it
                stuck = True
            if stuck and not done.is_set():
                self._over = True
                return _thread.interrupt_main()

    def _look(self) -> bool:
        """End the workers of nodes that have died; return whether there are such nodes."""
        import ray

        now = set(alive())
        self._lost |= self._seen - now
        self._seen |= now
        if self._lost:
            # Ask the register every time, because a worker that was starting when its node died may register late.
            for worker in ray.get(self.register.take.remote(self._lost)):
                ray.kill(worker, no_restart=True)
        return bool(self._lost)
