"""The referee's side of a worker: starts the worker, sends messages, times calls, and stops it between calls."""

import array
import json
import math
import select
import socket
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set

from ...errors import DeviceError
from ...graph.layers import ConvolutionShape
from ..intake.building import BuiltSubmission
from ..sandbox import Box, Broken, Layers, start
from ..sandbox.box import plan
from ..sandbox.gate import Gate
from ..sandbox.proc import Unreadable
from ..sandbox.start import python
from .findings import plain
from .memory import Place
from .tensors import Shared

_MOST = 1 << 16  # largest number of bytes of a message
_LOOK = 0.05  # seconds between two checks of the worker's resources
# Shortest time of a bracket in seconds. The lag, which varies, is subtracted, and the result must not be 0 or less.
_LEAST = 1e-6
_MOST_SECONDS = 1e6  # a worker that reports a longer time for a call is lying
_STARTING = 30.0  # time limit in seconds for the start of a worker, until it has confined itself


class TimedBracket(NamedTuple):
    """Result of a bracket of calls. All fields but `seconds` are claims of the worker."""

    seconds: float  # time of a call by the referee's clock
    status: int  # an fops_status
    op_seconds: float
    layer_seconds: float
    findings: int  # bits FOPS_FOUND_*
    message: str


class Session:
    """One worker in its box, from start to end; DeviceError if it cannot be started. Between calls, all threads of the
    worker are stopped, so that a submission's code runs only while the referee's clock runs. `packages` are folders of
    Python packages."""

    def __init__(self, box: Box, layers: Layers, shared: Shared, packages: Sequence[str] = ()):
        self._channel, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._spins, self._calls = shared.device is not None, 1
        self._passed: List[int] = []  # descriptors that came with the first message, before the submission is loaded
        self._ancillary = socket.CMSG_SPACE(4)
        # Sizes and threads of calls in which the submission may no longer start processes; without a gate, all.
        self._warm: Set[Any] = set()
        memory = shared.host
        box = box._replace(shared=memory.size)
        with inner:
            command, inherited = python("worker", str(inner.fileno())), (inner.fileno(), memory.descriptor)
            self._sandbox = start(box, layers, command, (*inherited, *shared.descriptors))
        try:
            asked = {
                **plan(box, layers),
                "memory": memory.descriptor,
                "packages": list(packages),
                "keep": list(shared.descriptors),
            }
            self._channel.send(json.dumps(asked).encode())
            self.layers: Dict[str, Any] = self._answer("layers", _STARTING)
            self._ancillary = 0
            self._sandbox.settle(*map(Gate, self._passed))
        except (Broken, OSError, Unreadable) as error:  # the submission, which is not loaded yet, is not the cause
            printed = self.printed
            self.close()
            raise DeviceError(f"the sandbox failed: {error}; {printed[-300:].strip()}") from None

    def load(self, plugin: BuiltSubmission, gpu: bool, device: Optional[Dict[str, Any]] = None) -> bool:
        """Load a submission; return whether it asks for an output that is zero before a call."""
        self._sandbox.allow_processes()
        self._send(load={"kind": plugin.kind, "path": str(plugin.path), "gpu": gpu, "device": device})
        zeroed = bool(self._answer("loaded", self._sandbox.remaining))
        self._sandbox.freeze()
        return zeroed

    def case(
        self,
        shape: ConvolutionShape,
        places: Sequence[Place],
        on_device: bool = False,
        examine: int = 0,
        threads: int = 0,
    ) -> None:
        """Send the sizes of the next calls, and the layout of the tensors for each call of a bracket. `threads` is the
        number of OpenMP's threads; 0 leaves it as it is."""
        lie = [place[:3] for place in places]
        self._calls = len(lie)
        asked = {"shape": shape, "places": lie, "on_device": on_device, "examine": examine, "threads": threads}
        self._send(case=asked)
        self._sandbox.thaw()
        self._answer("ready", self._sandbox.remaining)
        self._sandbox.freeze()

    def cold(self, key: Any) -> bool:
        """Return whether calls with a key, their shape and threads, have yet to be warmed up; remember the key."""
        known = key in self._warm or not self._passed
        self._warm.add(key)
        return not known

    def call(self, number: int, tensors, bracket, patience: float = math.inf, processes: bool = False) -> TimedBracket:
        """Run the submission once for each slot of the process's bracket `number`; return the means. With `processes`,
        it may start processes, which are ended after the call. Broken if the worker ends, exceeds a limit, sends a
        malformed message, or does not end within `patience`."""
        if processes:
            self._sandbox.allow_processes()
        word = b"go %d" % number
        # On a GPU, wake the worker before it can see the inputs and before the clock starts, because waking up takes
        # longer than some kernels.
        if tensors.on_device:
            self._tell(b"wake")
            self._sandbox.thaw()
            if self._receive(self._sandbox.remaining) != b"awake":
                raise Broken("wrote_to_channel")
            tensors.show(bracket)
            start = time.perf_counter()
            self._tell(word)
        else:
            self._tell(word)
            start = self._sandbox.thaw()
        remaining = self._sandbox.remaining
        said = self._receive(patience, "hangs") if patience < remaining else self._receive(remaining)
        done = time.perf_counter() + tensors.settled()
        end = self._sandbox.freeze()
        # On a CPU, the time ends when the worker is stopped, so that work after its message counts. On a GPU, stopping
        # the worker does not stop the device: `settled` has waited for it, and waits again for work that the worker
        # queued before it stopped.
        if tensors.on_device:
            end = time.perf_counter() if tensors.settled() else done
        seconds = max(end - start - tensors.lag.word, _LEAST)
        return _called(said, number, seconds / self._calls)

    def rest(self, seconds: float) -> None:
        self._sandbox.thaw()
        time.sleep(seconds)
        self._sandbox.freeze()

    @property
    def printed(self) -> str:
        return self._sandbox.printed

    def close(self) -> None:
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
            self._channel.send(message, socket.MSG_DONTWAIT)  # blocks if the worker has left many unread
        except OSError:
            raise self._sandbox.ended() or Broken("closed_channel") from None

    def _answer(self, name: str, patience: float) -> Any:
        said = self._receive(patience)
        try:
            answer = json.loads(said)
            if "failed" in answer:
                raise Broken("not_loaded", text=plain(str(answer["failed"])))
            return answer[name]
        except (ValueError, TypeError, KeyError, RecursionError):  # RecursionError: JSON that is nested too deeply
            raise Broken("wrote_to_channel") from None

    def _receive(self, patience: float, code: str = "time_limit") -> bytes:
        end, look = time.monotonic() + patience, 0.0
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        while not poll.poll(0 if self._spins else 1e3 * _LOOK):
            if time.monotonic() < look:
                continue
            self._sandbox.watch()
            look = time.monotonic() + _LOOK
            if time.monotonic() > end:
                raise Broken(code, seconds=round(patience))
        try:
            said, passed, _, _ = self._channel.recvmsg(_MOST, self._ancillary)
        except OSError:
            said, passed = b"", []
        for _, _, data in passed:
            self._passed += array.array("i", data)
        if not said:
            raise self._sandbox.ended() or Broken("closed_channel")
        return said


def _called(said: bytes, number: int, seconds: float) -> TimedBracket:
    fields = said.split(b" ", 6)
    try:
        if fields[0] != b"done" or int(fields[1]) != number:
            raise ValueError
        op, layer = float(fields[3]), float(fields[4])
        if not (abs(op) < _MOST_SECONDS and abs(layer) < _MOST_SECONDS):  # nor NaN
            raise ValueError
        message = fields[6].decode(errors="replace")[:512]
        return TimedBracket(seconds, int(fields[2]), op, layer, int(fields[5]), message)
    except (ValueError, IndexError):
        raise Broken("wrote_to_channel") from None
