"""CUPTI's activity records of a CUDA device and of calls into CUDA, for any kernel in this process."""

import importlib
import re
import time
from typing import Any, Callable, Dict, List, Tuple

from ..errors import DeviceError
from ..system import installation
from ..system.text import one_line
from . import records
from .records import Record, demangle

# A record takes some 100 to 200 bytes. One buffer holds a whole run of the largest network, so that no buffer is
# delivered during the measurement.
_BUFFER = 8 << 20
_KINDS = ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "RUNTIME", "DRIVER")
_FLUSH_ALL = 1


class CuptiSource:
    """CUPTI's activity records, switched on once and off; DeviceError if CUPTI cannot be loaded."""

    def __init__(self):
        try:
            self._cupti = importlib.import_module("cupti.cupti")
        except ImportError as error:
            # If cupti-python is installed without its dependencies, the error names the missing module.
            missing = getattr(error, "name", None) or "cupti"
            lacks = "" if missing.split(".")[0] == "cupti" else f"; {missing} is missing"
            raise DeviceError(f"{_advice()}{lacks}") from None
        except Exception as error:
            raise DeviceError(f"CUPTI cannot be loaded ({one_line(error)}): {_advice()}") from None
        self._kinds = [getattr(self._cupti.ActivityKind, kind) for kind in _KINDS]
        self._on = False
        self._raw: List[Tuple[str, Tuple]] = []
        self._offset = 0
        self._threads: Dict[int, int] = {}

    def start(self) -> None:
        """Start recording; DeviceError if CUPTI refuses: another profiler uses it, or the driver is too old."""
        if self._on:
            return
        try:
            self._cupti.activity_register_callbacks(lambda: (_BUFFER, 0), self._completed)
            for kind in self._kinds:
                self._cupti.activity_enable(kind)
            self._offset = time.time_ns() - self._cupti.get_timestamp()
        except Exception as error:  # cupti-python has several classes, one of them for a missing driver
            raise DeviceError(
                f"CUPTI cannot record ({one_line(error)}): is another profiler attached, or the driver too old?"
            ) from None
        self._on = True

    def stop(self) -> None:
        """Let CUPTI deliver its records, and stop recording."""
        if not self._on:
            return
        self._cupti.activity_flush_all(_FLUSH_ALL)
        for kind in self._kinds:
            self._cupti.activity_disable(kind)
        self._on = False

    def take(self) -> List[Record]:
        raw, self._raw = self._raw, []
        calls = [self._call(values) for what, values in raw if what == "call"]
        return [self._activity(what, values) for what, values in raw if what != "call"] + records.outermost(calls)

    def _completed(self, activities) -> None:
        """Copy the needed fields of each record, because CUPTI reuses their memory."""
        kinds = self._cupti.ActivityKind
        for a in activities:
            if a.kind in (kinds.RUNTIME, kinds.DRIVER):
                self._raw.append(("call", (a.kind, a.cbid, a.start, a.end, a.thread_id)))
            elif a.kind == kinds.CONCURRENT_KERNEL:
                self._raw.append((records.KERNEL, (a.name, a.start, a.end, a.device_id, a.stream_id, 0)))
            elif a.kind == kinds.MEMCPY:
                kind = self._cupti.ActivityMemcpyKind(a.copy_kind).name  # such as HTOD, which nvprof writes as HtoD
                name = f"[CUDA memcpy {kind.replace('TO', 'to')}]"
                self._raw.append((records.COPY, (name, a.start, a.end, a.device_id, a.stream_id, a.bytes)))
            elif a.kind == kinds.MEMSET:
                self._raw.append((records.SET, ("[CUDA memset]", a.start, a.end, a.device_id, a.stream_id, a.bytes)))

    def _activity(self, kind: str, values: Tuple) -> Record:
        name, start, end, device, stream, size = values
        lane = f"device {device}, stream {stream}"
        return Record(kind, demangle(name), start + self._offset, end - start, lane, size)

    def _call(self, values: Tuple) -> Record:
        kind, cbid, start, end, thread = values
        runtime = kind == self._cupti.ActivityKind.RUNTIME
        domain = self._cupti.CallbackDomain.RUNTIME_API if runtime else self._cupti.CallbackDomain.DRIVER_API
        name = _call_name(self._cupti.get_callback_name, domain, cbid)
        number = self._threads.setdefault(thread, len(self._threads) + 1)
        return Record(records.API, name, start + self._offset, end - start, f"CUDA, thread {number}")


def _call_name(ask: Callable[[Any, int], str], domain: Any, number: int) -> str:
    """Return a call's name without the version of its interface: cudaMalloc, not cudaMalloc_v3020."""
    key = (domain, number)
    if key not in _names:
        _names[key] = re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", ask(domain, number))
    return _names[key]


_names: Dict[Tuple[Any, int], str] = {}


def _advice() -> str:
    extra = installation.extra("profile")
    return f"profiling on the GPU needs CUPTI's Python package: {extra} (Python 3.10 or newer)"
