"""Calls a built kernel on the GPU in a separate process, which compute-sanitizer, ncu and CUPTI can observe.

`python -m fashion_infer.explain.device_call LIBRARY IMAGES CHANNELS SIDE FILTERS TAPS CALLS [trace]` needs neither
the operator library nor a framework. It prints a line of JSON with the times of the calls and, with `trace`, CUPTI's
records of the last call. Each allocation is exactly as large as its tensor, so that memcheck detects a read past the
tensor's end.
"""

import ctypes
import importlib
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from ..graph.layers import ConvolutionShape
from ..kernel_files import plugin
from ..library import plugin_abi
from ..system import programs


def command(library: Optional[Path], shape: ConvolutionShape, calls: int, *more: str) -> List[str]:
    """Return the command that calls a built kernel on a shape."""
    sizes = map(str, (shape.B, shape.C, shape.H, shape.M, shape.K, calls))
    return [sys.executable, "-m", __name__, str(library), *sizes, *more]


def ran(command: Sequence[str], seconds: float) -> str:
    """Return the output of a program that imports this package from the same folder as this process does."""
    path = os.pathsep.join(part for part in sys.path if part)
    return programs.output(command, seconds, more={"PYTHONPATH": path})


def main(arguments: Sequence[str]) -> int:  # pragma: no cover (needs a GPU; tests/gpu runs it)
    """Call the kernel as the arguments say; return 0, or 1 if the kernel's plug-in or the GPU reports an error."""
    library = Path(arguments[0])
    images, channels, side, filters, taps, calls = map(int, arguments[1:7])
    made = plugin.opened(library)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (images, channels, side, side)).astype(np.float32)
    k = rng.standard_normal((filters, channels, taps, taps)).astype(np.float32)
    y = np.empty((images, filters, side - taps + 1, side - taps + 1), np.float32)
    driver = _Driver()
    on_host = bool(made.description.host_memory)
    places = [t.ctypes.data for t in (x, k, y)] if on_host else [driver.copied(x), driver.copied(k), driver.room(y)]
    call = plugin_abi.PluginCall(plugin_abi.ConvSize(images, channels, side, side, filters, taps, 0), *places)
    recorder, missing, status = None, "", 0
    seconds: List[float] = []
    phases: List[List[float]] = []  # Op Time and Layer Time of each call of a format with phases
    for number in range(calls):
        if number == calls - 1 and "trace" in arguments[7:]:
            try:
                recorder = _Recorder()
            except Exception as error:  # no CUPTI, or another profiler holds it
                missing = " ".join(f"{type(error).__name__}: {error}".split())
        start = time.perf_counter()
        status = made.description.run(ctypes.pointer(call))
        settled = driver.settle()
        seconds.append(time.perf_counter() - start)
        phases += [[call.op_seconds, call.layer_seconds]] if call.layer_seconds else []
        status = status or settled
        if status:
            break
    records = recorder.taken() if recorder else []
    said = call.message.decode(errors="replace")
    found = {"seconds": seconds, "phases": phases, "status": status, "said": said, "no_cupti": missing}
    print(json.dumps({**found, "records": records}))
    return int(bool(status))


class _Driver:  # pragma: no cover (needs a GPU; tests/gpu runs it)
    """Device memory in the device's primary CUDA context, which the CUDA runtime uses as well."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._context = ctypes.c_void_p()
        self._do("cuInit", 0)
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), 0)
        self._do("cuCtxSetCurrent", self._context)

    def _do(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise SystemExit(f"{name}: CUDA error {status}")

    def room(self, tensor: np.ndarray) -> int:
        place = ctypes.c_uint64()
        self._do("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(tensor.nbytes))
        return place.value

    def copied(self, tensor: np.ndarray) -> int:
        place = self.room(tensor)
        source = ctypes.c_void_p(tensor.ctypes.data)
        self._do("cuMemcpyHtoD_v2", ctypes.c_uint64(place), source, ctypes.c_size_t(tensor.nbytes))
        return place

    def settle(self) -> int:
        return int(self._cuda.cuCtxSynchronize())


class _Recorder:  # pragma: no cover (needs a GPU; tests/gpu runs it)
    """Records by CUPTI from the moment of construction: kernels, copies, and calls of the CUDA runtime."""

    def __init__(self) -> None:
        self._cupti = importlib.import_module("cupti.cupti")
        self._records: List[Dict[str, Any]] = []
        kinds = self._cupti.ActivityKind
        self._kinds = [kinds.CONCURRENT_KERNEL, kinds.MEMCPY, kinds.MEMSET, kinds.RUNTIME]
        self._cupti.activity_register_callbacks(lambda: (8 << 20, 0), self._completed)
        for kind in self._kinds:
            self._cupti.activity_enable(kind)

    def taken(self) -> List[Dict[str, Any]]:
        self._cupti.activity_flush_all(1)
        for kind in self._kinds:
            self._cupti.activity_disable(kind)
        return self._records

    def _completed(self, activities: Any) -> None:
        kinds = self._cupti.ActivityKind
        for one in activities:
            record = {"start": one.start, "ns": one.end - one.start}
            if one.kind == kinds.CONCURRENT_KERNEL:
                record.update(kind="kernel", name=one.name)
                for field in ("grid", "block"):
                    record[field] = [getattr(one, f"{field}_{axis}", None) for axis in "xyz"]
                for field in ("registers_per_thread", "static_shared_memory", "dynamic_shared_memory"):
                    record[field] = getattr(one, field, None)
            elif one.kind == kinds.RUNTIME:
                domain = self._cupti.CallbackDomain.RUNTIME_API
                name = self._cupti.get_callback_name(domain, one.cbid)
                record.update(kind="call", name=re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", name))
            else:
                record.update(kind="copy" if one.kind == kinds.MEMCPY else "set", bytes=one.bytes)
            self._records.append(record)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
