"""Grades the ladder's kernels, and compares the times in their verdicts with those that `bench conv` measures.

Run on a GPU machine:

    python scripts/grade_ladder.py [--edition fa2017] [--n 10000] [--kernels register-tile,...] [--tries 20]

A kernel passes if the two times differ by at most 3% or 8 microseconds, and grading it takes less than 15 seconds.
Then a kernel and a 5% slower copy of it are graded in turns with the shortest timing. The faster one must rank first
each time.
"""

import argparse
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

from fashion_infer.bench.conv import Convolutions
from fashion_infer.bench.request import BenchRequest
from fashion_infer.grading import marks, rubric
from fashion_infer.grading.device import Gpu, lag
from fashion_infer.grading.intake.building import BuiltSubmission
from fashion_infer.grading.referee import Machine, Referee
from fashion_infer.grading.sandbox import required
from fashion_infer.judging.inputs import Seed

_SHARE, _MICROSECONDS, _APART = 0.03, 8.0, 1.05
_MOST_SECONDS = 15.0  # limit of the time to grade a built kernel on an H200
# Source of a kernel that first fills a given number of outputs per image, which the real kernel then overwrites.
_FILL = """
  typedef int function(unsigned long long, unsigned, size_t);
  extern void *dlopen(const char*, int), *dlsym(void*, const char*);
  static function* fill;
  if (!fill) fill = (function*)dlsym(dlopen("libcuda.so.1", 2), "cuMemsetD32_v2");
  if (fill((unsigned long long)call->y, 0, %d * (size_t)call->conv.B)) return FOPS_DEVICE_ERROR;
"""


def main() -> int:
    """Grade the kernels; the exit code is 0 if all kernels and all pairs pass."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edition", default="fa2017")
    parser.add_argument("--n", type=int, default=10000)
    parser.add_argument("--kernels", help="comma-separated names [default: the ladder]")
    parser.add_argument("--tries", type=int, default=20, help="tries of the pair [default: 20]")
    parser.add_argument("--pair", default="register-tile", help="kernel of the pair [default: register-tile]")
    options = parser.parse_args()
    names = options.kernels or "ladder"
    asked = BenchRequest((options.edition,), "gpu", against="none", batches=(options.n,), kernels=names)
    measured = Convolutions(asked).measure()
    rows = {row.name: row.median_ms for row in measured.cases[0].rows if row.kind == "ours" and row.timed}
    fill = next(row.median_ms for row in measured.cases[0].rows if row.kind == "limit")
    if len(measured.cases) > 1:
        sys.exit("choose an edition with one convolution: the benchmark times one layer")
    asked = rubric.changed(rubric.default(options.edition), "gpu", options.n)._replace(precision="half")
    machine = Machine(required(), gpu=Gpu(0))
    lag = machine.gpu.lag(machine)
    print(f"the way to the worker and back: {1e3 * lag.word:.3f} ms a bracket", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        wrong = _ladder(Path(folder), rows, asked, machine)
        if options.tries:
            share = (_APART - 1) * rows[options.pair] / fill
            slower = int(share * math.prod(measured.cases[0].shape.output[1:]))
            pair = [_plugin(Path(folder), options.pair, more) for more in (0, slower)]
            wrong += _pair(pair, asked, machine, options.tries)
    return 1 if wrong else 0


def _ladder(folder: Path, rows: Dict[str, float], asked: Any, machine: Machine) -> int:
    """Print each kernel's time in the verdict and in the benchmark; return how many differ or take too long."""
    wrong = 0
    for name, bench in rows.items():
        plugin, start = _plugin(folder, name), time.monotonic()
        op = _op(plugin, asked, machine)
        seconds = time.monotonic() - start
        off = op - bench
        ok = abs(off) <= max(_SHARE * bench, _MICROSECONDS / 1e3) and seconds < _MOST_SECONDS
        wrong += not ok
        line = f"{name:<20} bench {bench:9.4f} ms  verdict {op:9.4f} ms  {1e3 * off:+8.1f} us {off / bench:+7.1%}"
        print(f"{'ok ' if ok else 'NO '} {line}  graded in {seconds:.1f} s", flush=True)
    return wrong


def _pair(pair: List[BuiltSubmission], asked: Any, machine: Machine, tries: int) -> int:
    """Grade a kernel and a 5% slower copy in turns; return how often the slower one was not ranked second."""
    once = asked._replace(timing=asked.timing._replace(seconds=0.1, runs=1, calls=1))  # the shortest timing
    times: List[Tuple[float, ...]] = []
    for number in range(tries):
        order = pair if number % 2 else pair[::-1]
        found = {plugin: _op(plugin, once, machine) for plugin in order}
        times.append(tuple(found[plugin] for plugin in pair))
    right = sum(fast < slow for fast, slow in times)
    ratio = statistics.median(slow / fast for fast, slow in times)
    print(
        f"{'ok ' if right == tries else 'NO '} a kernel and the same {ratio - 1:.1%} slower, timed once each: ranked "
        f"right in {right} of {tries} tries",
        flush=True,
    )
    return tries - right


def _op(plugin: BuiltSubmission, asked: Any, machine: Machine) -> float:
    """Return the verdict's Op Time in ms."""
    found = Referee(plugin, asked, Seed.fresh(), machine).observe()
    op = marks.of(asked, found).op_ms
    if op is None:
        sys.exit(f"{plugin.path.stem}: refused: {[finding.text for finding in found.findings]}")
    return op


def _plugin(folder: Path, kernel: str, slower: int = 0) -> BuiltSubmission:
    own = folder / f"{kernel}{'-slower' * bool(slower)}"
    own.mkdir(exist_ok=True)
    plugin = lag.built(own, kernel, _FILL % slower if slower else "")
    if plugin is None:
        sys.exit("no C compiler was found")
    return plugin


if __name__ == "__main__":
    sys.exit(main())
