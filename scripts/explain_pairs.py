"""Compares what `kernel explain` promises of a remedy with what it brings, on pairs of CPU kernels (docs/why.md).

    python scripts/explain_pairs.py [--pairs NAME,...] [--busy]

Each pair of tests/planted_cpu.py has a slow kernel, and the same kernel after one remedy. Both are timed in turns. On a
busy machine, threads wait for processors: with --busy, a call's time is its processor time, divided by its threads.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fashion_infer.explain import slow_cpu
from fashion_infer.explain.samples import SampledProgram
from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.kernel_files import formats, loading
from fashion_infer.library import kernels

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import planted_cpu

SHAPE = ConvolutionShape(16, 4, 40, 40, 16, 7)
SECONDS = 10.0  # of timing both kernels of a pair


def milliseconds(files, seconds, busy):
    """Return the least time of a call of each kernel file, from calls in turns."""
    cores = len(os.sched_getaffinity(0))
    threads = [cores if busy and "omp parallel" in file.path.read_text() else 1 for file in files]
    clock = time.process_time if busy else time.perf_counter
    rng = np.random.default_rng(0)
    x = rng.random(SHAPE.data, dtype=np.float32)
    k = rng.random(SHAPE.weights, dtype=np.float32)
    names = [loading.load(file).name for file in files]
    least = [float("inf")] * len(files)
    end = time.monotonic() + seconds
    while time.monotonic() < end or not np.isfinite(least).all():
        for number, name in enumerate(names):
            start = clock()
            kernels.convolve(x, k, name)
            least[number] = min(least[number], 1e3 * (clock() - start) / threads[number])
    return least


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", help="names of pairs, with commas between them [default: all]")
    parser.add_argument("--busy", action="store_true", help="measure processor time")
    options = parser.parse_args()
    names = options.pairs.split(",") if options.pairs else list(planted_cpu.PAIRS)
    if options.busy:
        os.environ["OMP_WAIT_POLICY"] = "passive"  # threads that wait use no processor time
    print("| remedy | finding | first | slow, ms | promised, ms | measured, ms | promised / measured |")
    print("|---|---|---|--:|--:|--:|--:|")
    errors = []
    for name in names:
        code, *texts = planted_cpu.PAIRS[name]
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for word, text in zip(("slow", "remedied"), texts):
                path = Path(folder) / f"{word}-{os.getpid()}-{len(errors)}.cpp"
                path.write_text(text)
                files.append(formats.recognise(str(path)))
            before, after = milliseconds(files, SECONDS, options.busy)
            with SampledProgram(files[0]) as program:
                found = slow_cpu.of_run(files[0].path, program.vectors, program.run(SHAPE, 60), before)
        one = next((one for one in found if one.code == code), None)
        first = "yes" if found and found[0].code == code else found[0].code if found else "none"
        if one is None:
            print(f"| {name} | {code} | {first} | {before:.3g} | - | {after:.3g} | - |", flush=True)
            continue
        promised = before * (one.after_ms / one.before_ms)
        errors.append(promised / after)
        print(
            f"| {name} | {code} | {first} | {before:.3g} | {promised:.3g} | {after:.3g} | {promised / after:.2f} |",
            flush=True,
        )
    off = [max(one, 1 / one) - 1 for one in errors]
    if off:
        print(f"\nmedian error {statistics.median(off):.0%}, worst {max(off):.0%}, {len(off)} of {len(names)} promised")


if __name__ == "__main__":
    main()
