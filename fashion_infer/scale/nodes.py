"""A Ray cluster: found, or started here; its nodes, and which of its workers died with them."""

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

AUTO = "auto"
_ANSWER = 5.0  # seconds in which a head node's port must answer: Ray itself tries for a minute
# Nothing is told to anybody, warnings about what is as it should be are left out, and Ray Data's thread does not start
# a Ray of its own after the end of ours.
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ENABLE_AUTO_CONNECT": "0",
}
_LOOK = 1.0  # seconds between two looks at the nodes
_STORE = 1 << 30  # bytes of a local Ray's object store: what is read ahead of a GPU


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """Ray, connected to a cluster for the block; one that this process is connected to already is used as it is.

    Parameters
    ----------
    address
        "auto" for the cluster that this machine belongs to, or else a Ray of this process's own; or HOST:PORT of a head
        node.

    Raises
    ------
    UsageError
        For an address of another form.
    DeviceError
        When nobody answers there, or something that this Ray cannot talk to.
    """
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
        said = " ".join(str(error).split()) or type(error).__name__
        raise DeviceError(f"no Ray cluster at {address} that this one can join ({said})") from None
    hush()
    stdout, sys.stdout = sys.stdout, cast(TextIO, _Ours(sys.stdout))
    try:
        yield
    finally:
        sys.stdout = stdout
        ray.shutdown()


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn Ray's exceptions in the block into a DeviceError of one line."""
    import ray

    try:
        yield
    except ray.exceptions.RayError as error:
        said = " ".join(str(error).split())[:200]
        raise DeviceError(f"the Ray cluster broke off ({said}): run the same command again, when it is well") from None


class _Ours:
    """Standard output without what Ray's threads print there about workers and nodes that die."""

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
    """Nothing on stderr for the block: Ray's C++ says there at which level it logs. What fails is an exception."""
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
    """Leave Ray's own words to its log files: what a user must know is one line of ours."""
    for name in ("ray", "ray.data"):
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
                handler.setLevel(logging.CRITICAL + 1)


def alive() -> Dict[str, Dict[str, float]]:
    """The resources (CPU, GPU, ...) of each node that is alive, by its id."""
    import ray

    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def shares(backend: str, threads: int) -> int:
    """Number of workers that fit on the cluster: one per GPU, or one per `threads` cores of a node."""
    resource, each = ("GPU", 1) if backend == "gpu" else ("CPU", threads)
    return sum(int(resources.get(resource, 0) // each) for resources in alive().values())


class Register:
    """Which worker is on which node: an actor, for workers tell it themselves, before their first block."""

    def __init__(self) -> None:
        self._workers: Dict[str, List[Any]] = {}
        self._begun: Dict[int, int] = {}

    def add(self, node: str, worker: Any) -> None:
        """A worker has begun, or begun again, on a node."""
        self._workers.setdefault(node, []).append(worker)

    def take(self, nodes: Set[str]) -> List[Any]:
        """The workers that began on these nodes, once."""
        return [worker for node in nodes for worker in self._workers.pop(node, [])]

    def begin(self, block: int) -> int:
        """How often a block has been begun, this time included."""
        self._begun[block] = self._begun.get(block, 0) + 1
        return self._begun[block]

    def ready(self) -> bool:
        """True, once there is a register."""
        return True


class Watch:
    """Ends the workers of nodes that die, for Ray would hold their blocks until the node comes back.

    A worker that Ray restarted on another node meanwhile is not on the dead one any more: it has told the register so
    since, and its block there is done again.

    Parameters
    ----------
    patience
        Seconds without a word of a block, once a node has died, before all is given up.
    """

    def __init__(self, patience: float):
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # Where this process is: what ends it ends this process as well.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        register: Any = ray.remote(num_cpus=0)(Register)
        self.register = register.options(scheduling_strategy=here).remote()
        ray.get(self.register.ready.remote())
        self._seen, self._lost = set(alive()), set()  # type: Set[str], Set[str]
        self._patience, self._heard, self._over = patience, time.monotonic(), False

    def heard(self) -> None:
        """A block has come."""
        self._heard = time.monotonic()

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Look at the nodes once a second during the block.

        Raises
        ------
        DeviceError
            When nodes have died and nothing is heard of the others. Only the main thread can be interrupted.
        """
        done = threading.Event()
        thread = threading.Thread(target=self._run, args=(done,), name="watch", daemon=True)
        thread.start()
        try:
            yield
        except KeyboardInterrupt:
            if not self._over:
                raise
            raise DeviceError(
                "the nodes of the Ray cluster are lost: run the same command again when it has some"
            ) from None
        finally:
            done.set()
            thread.join()

    def _run(self, done: threading.Event) -> None:
        import ray

        while not done.wait(_LOOK):
            try:
                stuck = self._look() and time.monotonic() - self._heard > self._patience
            except ray.exceptions.RayError:  # the node of this process
                stuck = True
            if stuck and not done.is_set():
                self._over = True
                return _thread.interrupt_main()

    def _look(self) -> bool:
        """End the workers of nodes that have died; whether there are such nodes."""
        import ray

        now = set(alive())
        self._lost |= self._seen - now
        self._seen |= now
        if self._lost:
            # Asked for again each time: a worker that was starting as its node died may tell of itself late.
            for worker in ray.get(self.register.take.remote(self._lost)):
                ray.kill(worker, no_restart=True)
        return bool(self._lost)
