"""Reads hardware counters of each kernel with Nsight Compute, but only the few that explain a convolution."""

import csv
import io
import re
import subprocess
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..errors import DeviceError
from ..system import programs
from .records import demangle

_TIMEOUT = 1800


class Counter(NamedTuple):
    what: str  # the line's title, with the unit
    metrics: Sequence[str]  # names of ncu's metrics, whose values are added
    digits: int = 1  # number of decimal places


COUNTERS = (
    Counter("time, us", ("gpu__time_duration.sum",)),
    Counter("achieved occupancy, %", ("sm__warps_active.avg.pct_of_peak_sustained_active",)),
    Counter("DRAM throughput, %", ("dram__throughput.avg.pct_of_peak_sustained_elapsed",)),
    Counter("L2 throughput, %", ("lts__throughput.avg.pct_of_peak_sustained_elapsed",)),
    Counter("FP32 pipe use, %", ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",)),
    Counter("tensor pipe use, %", ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",)),
    Counter(
        "shared-memory bank conflicts",
        (
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        ),
        0,
    ),
    Counter("registers a thread", ("launch__registers_per_thread",), 0),
    Counter(
        "local memory moved (spills), bytes",
        ("l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum"),
        0,
    ),
)


class KernelCounters(NamedTuple):
    """The counters of a kernel's longest launch; None for a counter that this GPU lacks."""

    name: str
    launches: int
    values: List[Optional[float]]  # in the order of COUNTERS

    def as_dict(self) -> Dict[str, Any]:
        counted = zip((counter.what for counter in COUNTERS), self.values)
        return {"name": self.name, "launches": self.launches, **dict(counted)}


def count(arguments: Sequence[str]) -> List[KernelCounters]:
    """Run `fashion-infer ARGUMENTS` under ncu, which repeats each kernel until it has read all counters.

    Raise DeviceError when ncu is missing, this user may not read counters, or the program fails.
    """
    metrics = ",".join(metric for counter in COUNTERS for metric in counter.metrics)
    # `--clock-control none` keeps the clock rates of a normal run; ncu would otherwise set the base rates. With
    # `--print-units base`, times are in nanoseconds and sizes in bytes.
    command = [programs.find_tool("ncu"), "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    command += ["--metrics", metrics, sys.executable, "-m", "fashion_infer", *arguments]
    try:
        done = programs.run(command, _TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"ncu could not be run: {error}") from None
    if "ERR_NVGPUCTRPERM" in done.stdout + done.stderr:
        raise DeviceError(programs.COUNTERS_FORBIDDEN)
    kernels = parse(done.stdout)
    if not kernels:
        raise DeviceError(f"ncu counted no kernel: {_reason(done)}")
    return kernels


def _reason(done: subprocess.CompletedProcess) -> str:
    lines = [
        line
        for line in (done.stdout + "\n" + done.stderr).splitlines()
        if "==ERROR==" in line or "fashion-infer:" in line
    ]
    return lines[-1] if lines else f"it ended with exit code {done.returncode}"


def parse(text: str) -> List[KernelCounters]:
    """Parse the output of `ncu --csv --page raw`, longest kernel first; the program's own lines may come before it."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    launches: Dict[str, List[List[Optional[float]]]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        if not (row["ID"] or "").isdigit():  # the row of units
            continue
        # ncu 2025.3 shortens "fops::<unnamed>::" to "unnamed>::"; CUPTI's names have the C++ runtime's form.
        name = re.sub("<?unnamed>::", "(anonymous namespace)::", demangle(row["Kernel Name"]))
        launches.setdefault(name, []).append([_value(row, counter) for counter in COUNTERS])
    found = [
        KernelCounters(name, len(all_), max(all_, key=lambda values: values[0] or 0)) for name, all_ in launches.items()
    ]
    return sorted(found, key=lambda kernel: -(kernel.values[0] or 0))


def _value(row: Dict[str, str], counter: Counter) -> Optional[float]:
    values = [_number(row.get(metric)) for metric in counter.metrics]
    if any(value is None for value in values):
        return None
    return sum(values) / (1000 if counter.what.endswith(", us") else 1)


def _number(text: Optional[str]) -> Optional[float]:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:  # "n/a"
        return None
