#!/usr/bin/env python3
"""Check and time the CUDA dense layer of custom_ops/net/cuda on this machine's GPU.

    scripts/bench_dense.py                 build it for this GPU, check, time
    scripts/bench_dense.py --check         check alone (what compute-sanitizer can run: add --small)
    scripts/bench_dense.py --library SO    one that was built before

Needs nvcc, g++, cmake, ninja and a Python with PyTorch. Errors are against float64, as parts of the largest
pre-activation; `bias` is the shrinking of the outputs, the slope of the error over the output. Times are medians over
30 runs, by CUDA events.
"""

import argparse
import ctypes
import pathlib
import statistics
import subprocess
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent


def build():
    """Build the target `bench_dense` with CMake's preset `gpu`."""
    ops = ROOT / "custom_ops"
    subprocess.run(["cmake", "--preset", "gpu", "-DFOPS_BENCH_DENSE=ON"], cwd=ops, check=True)
    subprocess.run(["cmake", "--build", "--preset", "gpu", "--target", "bench_dense"], cwd=ops, check=True)
    return ROOT / "build" / "gpu" / "libbench_dense.so"


class Weights(ctypes.Structure):
    _fields_ = [("units", ctypes.c_int64), ("inputs", ctypes.c_int64)] + [
        (name, ctypes.c_void_p) for name in ("hi", "lo", "unscale", "bias", "least")
    ]


class Dense:
    """A layer: float32 weights (units, inputs) and a bias or None, packed once."""

    def __init__(self, library, w, bias):
        self.library, self.packed = library, Weights()
        units, inputs = w.shape
        library.weight_bytes.restype = library.workspace_bytes.restype = ctypes.c_size_t
        library.message.restype = ctypes.c_char_p
        wide = ctypes.c_longlong
        # Poisoned, so that what pack_dense leaves unwritten shows.
        self.memory = torch.full(
            (library.weight_bytes(wide(units), wide(inputs)),), 0xFF, dtype=torch.uint8, device="cuda"
        )
        self.status(
            library.pack(
                wide(units),
                wide(inputs),
                pointer(w),
                pointer(bias),
                pointer(self.memory),
                ctypes.byref(self.packed),
                stream(),
            )
        )
        self.workspace = None

    def status(self, status):
        if status != 0:
            raise RuntimeError(self.library.message().decode())

    def __call__(self, hi, lo, unscale, tanh=False, products=3, out=None):
        n, wide = hi.shape[0], ctypes.c_longlong
        if out is None:
            out = torch.full((n, self.packed.units), float("nan"), device="cuda")
        need = self.library.workspace_bytes(ctypes.byref(self.packed), wide(n))
        if self.workspace is None or self.workspace.numel() < need:
            self.workspace = torch.full((need,), 0xFF, dtype=torch.uint8, device="cuda")
        self.status(
            self.library.dense(
                ctypes.byref(self.packed),
                wide(n),
                pointer(hi),
                pointer(lo),
                ctypes.c_float(unscale),
                int(tanh),
                products,
                pointer(out),
                pointer(self.workspace),
                stream(),
            )
        )
        return out


def pointer(tensor):
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


def stream():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def split(x, scale=2.0**13):
    """x (n, inputs) as hi, lo (n, stride) and the inverse of the scale."""
    stride = (x.shape[1] + 63) // 64 * 64
    hi, lo = (torch.zeros(x.shape[0], stride, dtype=torch.half, device="cuda") for _ in range(2))
    hi[:, : x.shape[1]] = (x * scale).half()
    lo[:, : x.shape[1]] = (x * scale - hi[:, : x.shape[1]].float()).half()
    return hi, lo, 1 / scale


def case(n, inputs, units, seed=0):
    torch.manual_seed(seed)
    x = torch.tanh(torch.randn(n, inputs, device="cuda") + 0.7)  # as pooled activations: mostly positive
    w = (torch.rand(units, inputs, device="cuda") * 2 - 1) * inputs**-0.5 * 3
    return x, w, torch.randn(units, device="cuda")


def exact(x, w, bias, tanh=False):
    y = torch.empty(x.shape[0], w.shape[0], dtype=torch.double, device="cuda")
    for i in range(0, x.shape[0], 2000):
        y[i : i + 2000] = x[i : i + 2000].double() @ w.double().T + bias.double()
    return torch.tanh(y) if tanh else y


def errors(y, reference, scale):
    d = y.double() - reference
    return {
        "max": float(d.abs().max() / scale),
        "rms": float(d.pow(2).mean().sqrt() / scale),
        "mean": float(d.mean() / scale),
        "bias": float((d * reference).sum() / reference.pow(2).sum()),
    }


def show(name, e):
    print(
        f"{name:40s} max {e['max']:.2e}  rms {e['rms']:.2e}  mean {e['mean']:+.1e}  bias {e['bias']:+.1e}", flush=True
    )


def check(library, small):
    """Shapes of every kind, with and without tanh, one and three products, and equal digits whatever the batch."""
    shapes = [(1, 7, 10), (3, 64, 64), (70, 130, 100), (5, 1000, 500), (153, 577, 129), (300, 449, 140)]
    if not small:
        shapes += [
            (1, 7200, 500),
            (16, 7200, 500),
            (33, 20184, 160),
            (256, 7200, 500),
            (1000, 7200, 500),
            (257, 10816, 140),
            (10000, 7200, 500),
            (10000, 10816, 140),
            (10000, 20184, 160),
        ]
    worst = 0.0
    for n, inputs, units in shapes:
        x, w, bias = case(n, inputs, units)
        layer = Dense(library, w, bias)
        operands = split(x)
        reference = exact(x, w, bias)
        scale = reference.abs().max()
        y = layer(*operands)
        e = errors(y, reference, scale)
        show(f"n {n} inputs {inputs} units {units}", e)
        assert e["max"] < 5e-7, "float32 grade"
        worst = max(worst, e["max"])
        assert torch.equal(y, layer(*operands)), "two runs"
        for rows in {1, n // 2, n - 1} - {0, n}:
            part = layer(operands[0][:rows], operands[1][:rows], operands[2])
            assert torch.equal(part, y[:rows]), f"the first {rows} rows alone"
        t = layer(*operands, tanh=True)
        assert errors(t, torch.tanh(reference), 1.0)["max"] < 1e-6 * max(1.0, float(scale)), "tanh"
        one = errors(layer(operands[0], None, operands[2], products=1), reference, scale)
        assert one["max"] < 2e-3, one
        free = Dense(library, w, None)(*operands)
        assert errors(free, exact(x, w, bias * 0), scale)["max"] < 5e-7, "no bias"
    x, w, bias = case(40, 200, 150)  # wild magnitudes: a row of zeros, rows near the ends of float32's range
    w[0] = 0
    w[1] *= 1e-30
    w[2] *= 1e25
    y = Dense(library, w, bias)(*split(x)).double()
    reference = exact(x, w, bias)
    d = ((y - reference).abs() / ((reference - bias).abs().amax(0) + bias.abs())).max()
    assert d < 1e-6, d
    print(f"checked; largest error {worst:.2e}", flush=True)


def graph_of(run, count):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        for _ in range(count):
            run()
    return graph


def median(run, repeats, pause, count=30):
    """Microseconds of a run, out of a graph of `repeats`: launching the shortest takes longer than running them."""
    graph = graph_of(run, repeats)
    times = []
    for i in range(count + 5):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(200_000)  # 0.1 ms, in which the processor queues what follows
        a.record()
        graph.replay()
        b.record()
        b.synchronize()
        time.sleep(pause)
        if i >= 5:
            times.append(a.elapsed_time(b) / repeats * 1000)
    return statistics.median(times)


def time_all(library, references, shapes):
    """Alone: a run after 3 ms of rest. In a row: 10 at once without rest, which the GPU's power limit slows."""
    for shape in shapes:
        time_one(library, references, *shape)


def time_one(library, references, n, inputs, units):
    """One shape's times."""
    x, w, bias = case(n, inputs, units)
    layer = Dense(library, w, bias)
    hi, lo, unscale = split(x)
    y = torch.empty(n, units, device="cuda")
    flop = 2 * n * inputs * units
    runs = [
        ("three products", 3, lambda: layer(hi, lo, unscale, True, 3, y)),
        ("one product", 1, lambda: layer(hi, None, unscale, True, 1, y)),
    ]
    if references:
        xh, wh = x.half(), w.half()

        def tf32():
            torch.backends.cuda.matmul.allow_tf32 = True
            x @ w.T
            torch.backends.cuda.matmul.allow_tf32 = False

        runs += [("torch fp32", 1, lambda: x @ w.T), ("torch tf32", 1, tf32), ("torch fp16", 1, lambda: xh @ wh.T)]
    print(f"n {n} inputs {inputs} units {units}")
    for name, products, run in runs:
        alone, row = median(run, 1, 0.003), median(run, 10, 0)
        print(
            f"  {name:16s} alone {alone:7.1f} us, {flop * products / alone / 1e6:4.0f} TFLOP/s;  in a row "
            f"{row:7.1f} us, {flop * products / row / 1e6:4.0f} TFLOP/s",
            flush=True,
        )
    start = time.perf_counter()
    for _ in range(200):
        layer(hi, lo, unscale, True, 3, y)
    if n == 1:
        print(f"  queueing a call takes the processor {(time.perf_counter() - start) / 200 * 1e6:.1f} us")
    torch.cuda.synchronize()


SHAPES = [
    (10000, 7200, 500),
    (10000, 10816, 140),
    (10000, 20184, 160),
    (1, 7200, 500),
    (16, 7200, 500),
    (256, 7200, 500),
    (1000, 7200, 500),
    (5000, 7200, 500),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--no-references", action="store_true")
    parser.add_argument("--shapes", type=int, default=len(SHAPES))
    options = parser.parse_args()
    path = options.library or build()
    library = ctypes.CDLL(str(path))
    if options.check or not options.time:
        check(library, options.small)
    if options.time or not options.check:
        time_all(library, not options.no_references, SHAPES[: options.shapes])


if __name__ == "__main__":
    main()
