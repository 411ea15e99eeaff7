"""Compares what `kernel explain` promises of a remedy with what it brings, on pairs of kernels (docs/why.md).

    python scripts/explain_pairs.py [--backend cpu|gpu] [--pairs NAME,...] [--busy]

Each pair of tests/planted_cpu.py or tests/gpu/planted_kernels.py has a slow kernel, and the same kernel after one
remedy. Both are timed in turns, on a GPU by Op Time. On a busy machine, threads wait for processors: with --busy, a
call's time is its processor time, divided by its threads. A GPU needs nvcc and ncu.
"""

import argparse
import functools
import importlib
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from fashion_infer.explain import ncu, slow_cpu, slow_gpu
from fashion_infer.explain.samples import SampledProgram
from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.kernel_files import formats, loading
from fashion_infer.library import kernels, op_times

TESTS = Path(__file__).resolve().parents[1] / "tests"
SIZES = (16, 4, 40, 16, 7)  # of the pairs for the CPU: images, channels, side, filters, taps
SECONDS = {"cpu": 10.0, "gpu": 1.0}  # of timing both kernels of a pair


def on_cpu(file, x, k, busy):
    """Return a function that calls a kernel file, and returns the milliseconds and a function for the output."""
    name, clock = loading.load(file).name, time.process_time if busy else time.perf_counter
    threads = len(os.sched_getaffinity(0)) if busy and "omp parallel" in file.path.read_text() else 1

    def call():
        start = clock()
        y = kernels.convolve(x, k, name)
        return 1e3 * (clock() - start) / threads, lambda: y

    return call


def on_gpu(file, x, k, busy):
    """Return a function that calls a kernel file on device memory, and returns what that of `on_cpu` returns."""
    import library

    name, conv = loading.load(file).name, library.conv_of(x, k)
    tensors = [library.Memory(each) for each in (x, k, library.nan_output(conv))]

    def call():
        op_times.drain()
        kernels.launch_timed(name, conv, *(each.address for each in tensors), 0)
        return 1e3 * op_times.drain()[0].seconds, tensors[2].get

    return call


def milliseconds(calls, seconds):
    """Return the least time of each call, from calls in turns. They must return the same output."""
    least = [float("inf")] * len(calls)
    end = time.monotonic() + seconds
    while time.monotonic() < end or not np.isfinite(least).all():
        made = [call() for call in calls]
        least = [min(one, ms) for one, (ms, _) in zip(least, made)]
    first, *others = (output() for _, output in made)
    for other in others:
        np.testing.assert_allclose(other, first, rtol=0, atol=1e-4 * np.abs(first).max())
    return least


def findings(file, shape, before):
    """Return the findings on a kernel file whose call takes `before` milliseconds, as `kernel explain` has them."""
    if file.backend == "gpu":
        raw = ncu.measure(file, shape, 60, say=functools.partial(print, file=sys.stderr))
        return slow_gpu.findings(raw, file.path, file.format, before)[0]
    with SampledProgram(file) as program:
        return slow_cpu.of_run(file.path, program.vectors, program.run(shape, 60), before)


def recognised(folder, pairs):
    """Write the kernels of the pairs into a folder; return the slow and the remedied file of each pair."""
    files = []
    for number, (_, *texts) in enumerate(pairs):
        for word, text in zip(("slow", "remedied"), texts):
            path = Path(folder) / f"{word}-{os.getpid()}-{number}.{'cu' if '__global__' in text else 'cpp'}"
            path.write_text(text)
            files.append(formats.recognise(str(path)))
    ncu.usage = functools.lru_cache(None)(ncu.usage)  # compiles each slow file again, which takes seconds
    with ThreadPoolExecutor() as pool:
        waits = [pool.submit(loading.built, file) for file in files]
        waits += [pool.submit(ncu.usage, file, None) for file in files[::2] if file.backend == "gpu"]
        for each in waits:
            each.result()
    return list(zip(files[::2], files[1::2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=SECONDS, default="cpu")
    parser.add_argument("--pairs", help="names of pairs, with commas between them [default: all]")
    parser.add_argument("--busy", action="store_true", help="on a CPU, measure processor time")
    options = parser.parse_args()
    sys.path[:0] = [str(TESTS), str(TESTS / "gpu")]
    planted = importlib.import_module("planted_kernels" if options.backend == "gpu" else "planted_cpu")
    names = options.pairs.split(",") if options.pairs else list(planted.PAIRS)
    if options.busy:
        os.environ["OMP_WAIT_POLICY"] = "passive"  # threads that wait use no processor time
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        files = recognised(folder, [planted.PAIRS[name] for name in names])
        print("| remedy | finding | first | slow, ms | promised, ms | measured, ms | promised / measured |")
        print("|---|---|---|--:|--:|--:|--:|", flush=True)
        for name, pair in zip(names, files):
            code, _, _, *sizes = planted.PAIRS[name]
            images, channels, side, filters, taps = sizes[0] if sizes else SIZES
            shape = ConvolutionShape(images, channels, side, side, filters, taps)
            rng = np.random.default_rng(0)
            x, k = rng.random(shape.data, dtype=np.float32), rng.random(shape.weights, dtype=np.float32)
            prepare = on_gpu if options.backend == "gpu" else on_cpu
            calls = [prepare(file, x, k, options.busy) for file in pair]
            before, after = milliseconds(calls, SECONDS[options.backend])
            found = findings(pair[0], shape, before)
            one = next((one for one in found if one.code == code), None)
            first = "yes" if found and found[0].code == code else found[0].code if found else "none"
            promised = before * (one.after_ms / one.before_ms) if one else float("nan")
            errors += [promised / after] if one else []
            figures = f"{promised:.3g} | {after:.3g} | {promised / after:.2f}" if one else f"- | {after:.3g} | -"
            print(f"| {name} | {code} | {first} | {before:.3g} | {figures} |", flush=True)
    off = [max(one, 1 / one) - 1 for one in errors]
    if off:
        print(f"\nmedian error {statistics.median(off):.0%}, worst {max(off):.0%}, {len(off)} of {len(names)} promised")


if __name__ == "__main__":
    main()
