"""The worker: the process that runs a submission. It obeys the referee's messages, one after another.

    referee                                  worker
    the plan (JSON), memory's descriptors -> confines itself
                                          <- {"layers": ...}, and for Python the descriptor of `seccomp.install`
    {"load": ...}                         -> loads the submission
                                          <- {"loaded": ...}
    {"case": ...}                         -> sets sizes and pointers
                                          <- {"ready": ...}
    b"wake" (only for device memory)      -> runs until b"go"
                                          <- b"awake"
    b"go N"                               -> calls the submission, waits for the device
                                          <- b"done N STATUS OP LAYER FINDINGS MESSAGE"

The referee does not trust the content of the worker's messages. It relies only on what it observes itself: that a
message arrived, and what the memory holds at that time. The times in a message have limited effects (`grading.marks`).
"""

import array
import contextlib
import ctypes
import json
import mmap
import os
import socket
import sys
import time
from typing import Any, Dict, Optional

from . import abi, confine, kernels

_MOST = 1 << 16  # largest number of bytes of a message
_POPULATE = 0x8000  # MAP_POPULATE, so that no page fault occurs during a timed call


class Worker:
    def __init__(self, channel: socket.socket):
        self._channel = channel
        self._device: Optional[Any] = None
        self._kernel: Optional[kernels.WorkerKernel] = None
        self._memory = 0
        self._calls = [abi.PluginCall()]
        self._spin = False

    def serve(self) -> None:
        self._begin(json.loads(self._receive()))
        while True:
            message = self._receive()
            if not message:
                return
            if message.startswith(b"go "):
                self._go(message[3:])
                continue
            if message == b"wake":
                self._channel.send(b"awake")
                continue
            asked = json.loads(message)
            if "load" in asked:
                self._load(**asked["load"])
            elif "case" in asked:
                self._case(**asked["case"])

    def _receive(self) -> bytes:
        while self._spin:  # on a GPU, do not sleep: waking up takes longer than some kernels
            try:
                return self._channel.recv(_MOST, socket.MSG_DONTWAIT)
            except BlockingIOError:
                pass
        return self._channel.recv(_MOST)

    def _say(self, **what: Any) -> None:
        self._channel.send(json.dumps(what).encode())

    def _begin(self, plan: Dict[str, Any]) -> None:
        confine.keep_only(self._channel.fileno(), plan["memory"], *plan["keep"])
        self._memory = _mapped(plan["memory"])  # before it is confined, because then it cannot map shared memory
        layers = confine.confine(plan)
        asks = layers["asks"]
        sys.path += plan.get("packages", [])
        message, passed = [json.dumps({"layers": layers}).encode()], array.array("i", [asks] if asks >= 0 else [])
        self._channel.sendmsg(message, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)] if passed else [])
        if passed:  # the submission must not answer in the referee's place
            os.close(asks)

    def _load(self, kind: str, path: str, gpu: bool, device: Optional[Dict[str, Any]] = None) -> None:
        try:
            if device is not None:
                from .driver import Device

                self._device = Device(**device)
                self._spin = True
            self._kernel = kernels.load(kind, path, gpu)
        except BaseException as error:  # any exception of the submission is reported to the referee
            self._say(failed=f"{type(error).__name__}: {error}"[:500])
            return
        self._say(loaded=self._kernel.zero_output)

    def _case(self, shape, places, on_device: bool, examine: int, threads: int) -> None:
        """Set the sizes B, C, H, W, M, K and, for each call of a bracket, the addresses of x, k and y. `places` holds
        their offsets in the memory. `threads` is the number of OpenMP's threads; 0 leaves it as it is."""
        if threads:
            with contextlib.suppress(OSError):  # the submission has not loaded OpenMP
                ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD).omp_set_num_threads(threads)
        base = self._device.memory if on_device and self._device else self._memory
        conv = abi.ConvSize(*shape, 0)
        self._calls = [abi.PluginCall(conv, *(base + place for place in each), None, examine) for each in places]
        self._say(ready=shape)

    def _go(self, number: bytes) -> None:
        assert self._kernel is not None  # the referee sends "load" first
        run, calls = self._kernel.run, self._calls
        for call in calls:
            call.op_seconds, call.layer_seconds, call.findings, call.message = -1.0, 0.0, 0, b""
        status = findings = 0
        start = time.perf_counter()
        try:
            for call in calls:
                status = run(call) or status
            if self._device is not None:
                status = self._device.settle(call) or status
        except BaseException as error:
            status = abi.DEVICE_ERROR
            call.message = f"{type(error).__name__}: {error}".encode(errors="replace")[:500]
        seconds = (time.perf_counter() - start) / len(calls)
        for each in calls:
            findings |= each.findings
        message = next((each.message for each in calls if each.message), b"")
        op = call.op_seconds if call.op_seconds >= 0 else seconds
        self._channel.send(b"done %b %d %.9f %.9f %d %b" % (number, status, op, call.layer_seconds, findings, message))


def _mapped(descriptor: int) -> int:
    """Map a shared file, close its descriptor, and return the address. Python's own mmap is not used, because it would
    keep a descriptor open."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    size = os.fstat(descriptor).st_size
    address = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _POPULATE, descriptor, 0)
    os.close(descriptor)
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(os.strerror(ctypes.get_errno()))
    return address


def main() -> None:
    Worker(socket.socket(fileno=int(sys.argv[1]))).serve()
