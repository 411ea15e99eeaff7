"""The referee's side of a worker: starts the worker, sends messages, times calls, and stops it between calls."""

import json
import math
import select
import socket
import time
from typing import Any, Dict, NamedTuple, Optional, Sequence

from ...errors import DeviceError
from ...graph.shapes import ConvolutionShape
from ..intake.building import BuiltSubmission
from ..sandbox import Box, Broken, Layers, start
from ..sandbox.start import plan, python
from .memory import Place
from .tensors import Shared

_MOST = 1 << 16  # largest number of bytes of a message
_LOOK = 0.05  # seconds between two checks of the worker's resources
_NOT_ITS_OWN = "it wrote to a descriptor that is not its own"
_CLOSED = "it closed the referee's channel"
# Shortest time of a bracket in seconds. The lag, which varies, is subtracted, and the result must not be 0 or less.
_LEAST = 1e-6
_STARTING = 30.0  # time limit in seconds for the start of a worker, until it has confined itself


class Called(NamedTuple):
    """Result of a bracket of calls. All fields but `seconds` are claims of the worker."""

    seconds: float  # time of a call by the referee's clock
    status: int  # an fops_status
    op_seconds: float
    layer_seconds: float
    findings: int  # bits FOPS_FOUND_*
    message: str


class Session:
    """One worker in its box, from start to end.

    Between calls, all threads of the worker are stopped, so that a submission's code runs only while the referee's
    clock runs.

    Parameters
    ----------
    box, layers, unsandboxed
        The box, the layers that enforce it, and whether to run without a sandbox.
    shared
        The memory that the referee shares with the worker.
    packages
        Folders of Python packages, for a submission in Python.

    Raises
    ------
    DeviceError
        When the worker cannot be started.
    """

    def __init__(
        self, box: Box, layers: Layers, shared: Shared, unsandboxed: bool = False, packages: Sequence[str] = ()
    ):
        self._channel, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._spins, self._calls = shared.device is not None, 1
        memory = shared.host
        box = box._replace(shared=memory.size)
        with inner:
            command, inherited = python("worker", str(inner.fileno())), (inner.fileno(), memory.descriptor)
            self._sandbox = start(box, layers, command, (*inherited, *shared.descriptors))
        try:
            asked = {
                **plan(box, layers, unsandboxed),
                "memory": memory.descriptor,
                "packages": list(packages),
                "keep": list(shared.descriptors),
            }
            self._channel.send(json.dumps(asked).encode())
            self.layers: Dict[str, Any] = self._answer("layers", _STARTING)
        except Broken as error:  # the submission has not been loaded yet, so it is not the cause
            printed = self.printed
            self.close()
            raise DeviceError(f"the sandbox failed: {error}; {printed[-300:].strip()}") from None

    def load(self, plugin: BuiltSubmission, gpu: bool, device: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """Load the submission; return its description of itself (`inside.kernels.described`).

        Raises
        ------
        Broken
            When the submission cannot be loaded, or its description is malformed.
        """
        self._send(load={"kind": plugin.kind, "path": str(plugin.path), "gpu": gpu, "device": device})
        found = self._answer("loaded", self._sandbox.remaining)
        if not isinstance(found, dict) or not isinstance(found.get("zero_output"), (bool, int)):
            raise Broken(_NOT_ITS_OWN)
        self._sandbox.freeze()
        return found

    def case(
        self, shape: ConvolutionShape, places: Sequence[Place], on_device: bool = False, examine: bool = False
    ) -> None:
        """Send the sizes of the next calls, and the layout of the tensors for each call of a bracket."""
        lie = [place[:3] for place in places]
        self._calls = len(lie)
        self._send(case={"shape": shape, "places": lie, "on_device": on_device, "examine": examine})
        self._sandbox.thaw()
        self._answer("ready", self._sandbox.remaining)
        self._sandbox.freeze()

    def call(self, number: int, tensors, bracket) -> Called:
        """Run the submission once for each call of a bracket, on the present content of the shared memory.

        Parameters
        ----------
        number
            Number of the bracket in this process.
        tensors, bracket
            The tensors, and the bracket's slots. On a GPU, the inputs are copied to the shared memory now.

        Returns
        -------
        Called
            Its seconds are the time of the bracket divided by the number of its calls.

        Raises
        ------
        Broken
            When the worker ends, exceeds a limit, or sends a malformed message.
        """
        word = b"go %d" % number
        # On a GPU, wake the worker before it can see the inputs and before the clock starts, because waking up takes
        # longer than some kernels.
        if tensors.on_device:
            self._tell(b"wake")
            self._sandbox.thaw()
            if self._receive(self._sandbox.remaining) != b"awake":
                raise Broken(_NOT_ITS_OWN)
            tensors.show(bracket)
            start = time.perf_counter()
            self._tell(word)
        else:
            self._tell(word)
            start = self._sandbox.thaw()
        said = self._receive(self._sandbox.remaining)
        done = time.perf_counter() + tensors.settled()
        stopped = self._sandbox.freeze()
        # On a CPU, the time ends when the worker is stopped, so that work after its message counts. On a GPU, stopping
        # the worker does not stop the device; `settled` has waited for it.
        seconds = max((done if tensors.on_device else stopped) - start - tensors.lag.word, _LEAST)
        return _called(said, number, seconds / self._calls)

    def rest(self, seconds: float) -> None:
        """Let the worker run for some seconds, without a call."""
        self._sandbox.thaw()
        time.sleep(seconds)
        self._sandbox.freeze()

    @property
    def printed(self) -> str:
        """The beginning of what the submission printed."""
        return self._sandbox.printed

    def close(self) -> None:
        """End the worker and all processes that it started."""
        self._channel.close()
        self._sandbox.kill()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *raised) -> None:
        self.close()

    def _send(self, **what: Any) -> None:
        self._tell(json.dumps(what).encode())

    def _tell(self, message: bytes) -> None:
        try:
            self._channel.send(message)
        except OSError:
            raise Broken(self._sandbox.ended() or _CLOSED) from None

    def _answer(self, name: str, patience: float) -> Any:
        said = self._receive(patience)
        try:
            answer = json.loads(said)
            if "failed" in answer:
                raise Broken(f"it cannot be loaded: {answer['failed']}")
            return answer[name]
        except (ValueError, TypeError, KeyError, RecursionError):  # RecursionError: JSON that is nested too deeply
            raise Broken(_NOT_ITS_OWN) from None

    def _receive(self, patience: float) -> bytes:
        """Return the next message; check the worker's use of resources while waiting for it."""
        end, look = time.monotonic() + patience, 0.0
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        while not poll.poll(0 if self._spins else 1e3 * _LOOK):
            if time.monotonic() < look:
                continue
            self._sandbox.watch()
            look = time.monotonic() + _LOOK
            if time.monotonic() > end:
                raise Broken(f"it did not end within {patience:.0f} s")
        try:
            said = self._channel.recv(_MOST)
        except OSError:
            said = b""
        if not said:
            raise Broken(self._sandbox.ended() or _CLOSED)
        return said


def _called(said: bytes, number: int, seconds: float) -> Called:
    fields = said.split(b" ", 6)
    try:
        if fields[0] != b"done" or int(fields[1]) != number:
            raise ValueError
        op, layer = float(fields[3]), float(fields[4])
        if not (math.isfinite(op) and math.isfinite(layer)):
            raise ValueError
        return Called(seconds, int(fields[2]), op, layer, int(fields[5]), fields[6].decode(errors="replace")[:512])
    except (ValueError, IndexError):
        raise Broken(_NOT_ITS_OWN) from None
