"""Measures the times of single MXNet nodes."""

import time
from typing import Callable, Dict, Optional


class Stopwatch:
    """Times MXNet's nodes one by one: `record` waits for each node, which costs some 20 microseconds per slice."""

    def __init__(self, mx):
        self._mx = mx
        self._error: Optional[BaseException] = None
        self.seconds: Dict[str, float] = {}

    def start(self) -> None:
        self._error = None
        self._last = time.perf_counter()

    @property
    def record(self) -> Callable[[bytes, int], None]:
        def callback(name: bytes, handle: int) -> None:
            # An exception cannot pass through MXNet's C++ code. Keep it for check().
            try:
                array = self._mx.nd.NDArray(self._mx.base.NDArrayHandle(handle), writable=False)
                array.wait_to_read()
                now = time.perf_counter()
                node = name.decode().rpartition("_")[0]  # "new0_output" is the first output of new0
                self.seconds[node] = self.seconds.get(node, 0.0) + now - self._last
                self._last = now
            except BaseException as error:
                self._error = self._error or error

        return callback

    def check(self) -> None:
        """Raise an exception that a callback caught."""
        if self._error is not None:
            raise self._error
