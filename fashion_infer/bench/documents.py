"""Reads the JSON files of measurements that `run`, `bench conv` and `bench net` write."""

import json
import math
import statistics
from typing import Any, Dict, NamedTuple, Tuple

from ..errors import DataError
from ..system import inputs, noise
from .records import CONVOLUTIONS, NETWORKS, OURS

MOST = 64 << 20  # largest file in bytes; `bench conv --kernels ladder` of every edition writes under 1 MB
RUN, CONV, NET = "run", "bench conv", "bench net"


class MeasuredTime(NamedTuple):
    """A measured time, in milliseconds."""

    median: float
    spread: float  # width of the range that contains the middle half of the runs
    runs: int
    ours: bool  # False for a peer or a limit: if these get slower, the machine is slower, which is not a fault
    samples: Tuple[float, ...] = ()  # times of single runs: of all passes of `run`, of some runs of a benchmark
    least: Tuple[float, ...] = ()  # lower bounds of `samples` on an idle machine; empty if unknown


class MeasuredFile(NamedTuple):
    name: str
    kind: str  # RUN, CONV or NET
    times: Dict[str, MeasuredTime]  # key: what was timed
    facts: Dict[str, str]  # correctness, and other values that must not change
    settings: Dict[str, str]  # settings and versions that may explain a difference
    size: Any  # number of images that each time is for; None for `bench net`, and if the batch sizes differ
    subject: tuple  # facts of two files are comparable only if their subjects are equal


def read(path: str) -> MeasuredFile:
    """Read a JSON file of measurements; DataError if it is not the output of one of the three commands."""
    try:
        data = json.loads(inputs.read(path, MOST).decode("utf-8"))
    except (ValueError, RecursionError):
        raise DataError(f"{path} is not JSON, or truncated") from None
    return parse(path, data)


def parse(path: str, data: Any) -> MeasuredFile:
    """Parse a file's content, already read as JSON; raise DataError as `read` does."""
    kind = _kind(data)
    if kind is None:
        raise DataError(f"{path} is not what `run --json`, `bench conv --json` or `bench net --json` writes")
    try:
        return {RUN: _run, CONV: _conv, NET: _net}[kind](path, data)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{path} looks like a file of `{kind} --json` but is damaged: {what}") from None


def _kind(data):
    if not isinstance(data, dict):
        return None
    keys = set(data)
    if {"layers", "correctness", "model"} <= keys:
        return RUN
    if {"cases", "logits", "device", "benchmark"} <= keys:
        return {CONVOLUTIONS: CONV, NETWORKS: NET}.get(str(data["benchmark"]))
    return None


def _run(path, data):
    times: Dict[str, MeasuredTime] = {}
    passes = {len(layer["seconds"]) for layer in data["layers"]}
    on_host = data["backend"] == "cpu"  # a GPU's time does not depend on other processes' CPU use
    if len(passes) != 1:
        raise ValueError("its layers have no passes, or different numbers of passes")
    layers = [(str(layer["name"]), [1e3 * _number(value) for value in layer["seconds"]]) for layer in data["layers"]]
    total = [sum(values) for values in zip(*(ms for _, ms in layers))]
    waits = [1e3 * _number(value or 0) for value in data["waited"]]
    if len(waits) not in (0, len(total)):
        raise ValueError("it has a different number of waits than passes")
    running = [max(0.0, 1 - wait / all_of) if all_of else 0.0 for wait, all_of in zip(waits, total)]
    for name, ms in [*layers, ("all layers", total)]:
        least = tuple(share * one for share, one in zip(running, ms)) if any(waits) and on_host else ()
        median = statistics.median(ms)
        _add(times, name, MeasuredTime(median, median * (noise.spread(ms) or 0.0), len(ms), True, tuple(ms), least))
    facts = {"correctness": f"{_number(data['correctness'])}"}
    facts["predictions"] = str(data["predictions_sha256"])[:12]
    names = ("model", "data_source", "n", "backend", "context", "mode", "precision", "operator", "kernel")
    settings = {name: str(data[name]) for name in (*names, "batch_size", "threads")}
    if waits:
        lost = 100 * sum(map(min, waits, total)) / (sum(total) or 1)
        settings["waiting for a processor"] = f"{lost:.0f}% of the time" if lost >= 5 else "hardly"
    settings.update(_versions(data))
    return MeasuredFile(path, RUN, times, facts, settings, data["n"], (data["model"], data["data_source"]))


def _conv(path, data):
    times: Dict[str, MeasuredTime] = {}
    facts: Dict[str, str] = {}
    for case in data["cases"]:
        for row in case["rows"]:
            ours = row["kind"] == OURS
            what = f"{case['edition']} convolution {case['number']}: {row['name']}"
            _bench_row(times, what, row, ours)
            if ours:
                facts[what] = str(row["status"])
    batches = data["batches"]
    size = batches[0] if len(batches) == 1 else None
    return MeasuredFile(path, CONV, times, facts, _bench_settings(data), size, ())


def _net(path, data):
    times: Dict[str, MeasuredTime] = {}
    # The names of these facts contain the number of checked images, because the number of changed predictions depends
    # on it.
    facts = {
        f"{check['edition']} logits of {check['checked']} images: {check['name']}": _verdict(check)
        for check in data["logits"]
    }
    for case in data["cases"]:
        for row in case["rows"]:
            ours = row["kind"] == OURS
            what = f"{case['edition']} {case['where']}, batch {case['batch']}: {row['name']}"
            _bench_row(times, what, row, ours)
            if ours:
                facts[f"{what} ({case['checked']} checked)"] = _verdict(row)
    return MeasuredFile(path, NET, times, facts, _bench_settings(data), None, ())


def _verdict(row):
    status, changed = str(row["status"]), row.get("changed")
    return status if changed is None else f"{status}, {changed} predictions changed"


def _bench_settings(data):
    known = {"backend": str(data["backend"]), "device": str(data["device"]["name"])}
    return {**known, "command": str(data["command"]), **_versions(data)}


def _versions(data):
    return {f"version of {name}": str(version) for name, version in data["versions"].items()}


def _bench_row(times, what, row, ours):
    if row["median_ms"] is None:
        return
    median, least, runs = _number(row["median_ms"]), _number(row["min_ms"]), int(_number(row["runs"]))
    if not (0 < least <= median and runs):
        raise ValueError(f"{what} has a median of {median} ms and a minimum of {least} ms in {runs} runs")
    # The range from minimum to median contains half of the runs, and is never longer than the median.
    samples = tuple(_number(value) for value in row["samples_ms"])
    _add(times, what, MeasuredTime(median, median - least, runs, ours, samples))


def _add(times, what, time):
    if what in times:
        raise ValueError(f"{what} appears twice")
    times[what] = time


def _number(value) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ValueError(f"expected a number, found {value!r}")
    return float(value)
