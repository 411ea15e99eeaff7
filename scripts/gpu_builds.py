#!/usr/bin/env python3
"""Compares builds of the operator library on this machine's GPU: is a changed kernel correct, and is it faster?

    scripts/gpu_builds.py OLD.so NEW.so [--layers NAME,NAME] [--images 1,100] [--cudnn]

For each layer it prints three results:

- the largest error of `auto` as a fraction of its bound (docs/precision.md), over pixels, reals, constant images,
  activations, and images with infinities and tiny values;
- whether single images have the same bits as in the batch;
- the median time of a call in a sequence of calls. The builds take turns; calls with batches of 1 are in a CUDA graph.

The exit code is 1 when a build is wrong. PyTorch and NumPy are needed.
"""

import argparse
import ctypes
import math
import statistics
import sys

import torch

# layer: C, H, W, M, K, number of images
LAYERS = {
    "sp2018-2": (6, 30, 30, 16, 5, 10000),
    "fa2019-2": (12, 33, 33, 24, 5, 10000),
    "fa2020-2": (4, 40, 40, 16, 7, 10000),
    "fa2018-2": (12, 33, 33, 24, 7, 1000),
    "sp2019-2": (6, 22, 22, 16, 5, 10000),
}


class Conv(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("B", "C", "H", "W", "M", "K")] + [("x_type", ctypes.c_int)]


class Build:
    """A library loaded from its path."""

    def __init__(self, path):
        self.name = path.rsplit("/", 1)[-1]
        self.library = ctypes.CDLL(path)
        self.forward = self.library.fops_conv_forward_gpu
        self.forward.argtypes = [ctypes.c_char_p, ctypes.POINTER(Conv), *[ctypes.c_void_p] * 4]
        self.library.fops_last_error.restype = ctypes.c_char_p

    def __call__(self, x, k, y):
        conv = Conv(*x.shape, k.shape[0], k.shape[2], 0)
        stream = torch.cuda.current_stream().cuda_stream
        if self.forward(b"auto", conv, x.data_ptr(), k.data_ptr(), y.data_ptr(), stream):
            sys.exit(f"{self.name}: {self.library.fops_last_error().decode()}")
        return y


def exact(x, k):
    """Return the outputs in float64, and the sums of the products' magnitudes."""
    with torch.backends.cudnn.flags(enabled=False):
        return (
            torch.nn.functional.conv2d(x.double(), k.double()),
            torch.nn.functional.conv2d(x.double().abs(), k.double().abs()),
        )


def inputs(kind, shape, weights):
    x, k = torch.rand(shape, device="cuda"), torch.randn(weights, device="cuda") * 0.1
    if kind == "pixels":
        x = (x * 256).floor()
    elif kind == "reals":
        x = x * 2 - 1
    elif kind == "activations":
        x = torch.tanh(3 * x - 1.5)
    elif kind == "constant":  # all terms of an output are equal: sums on the tensor cores lose the most
        x = torch.rand(shape[0], 1, 1, 1, device="cuda").expand(shape).contiguous()
        k = torch.rand(weights[0], 1, 1, 1, device="cuda").expand(weights).contiguous()
    elif kind == "special":
        x.view(-1)[torch.randint(x.numel(), (max(1, x.numel() // 20000),))] = 1e-30
        x.view(-1)[torch.randint(x.numel(), (2,))] = math.inf
    return x, k


def alike(a, b):
    """Return whether two results have the same bits; any two NaNs count as equal."""
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())


def worst_of(build, name, n=48):
    """Print a build's largest errors as fractions of the bound; return whether something is wrong."""
    C, H, W, M, K, _ = LAYERS[name]
    said, bad = [], False
    for kind in ("pixels", "reals", "activations", "constant", "special"):
        x, k = inputs(kind, (n, C, H, W), (M, C, K, K))
        y = torch.full((n, M, H - K + 1, W - K + 1), math.nan, device="cuda")
        build(x, k, y)
        want, size = exact(x, k)
        limit = 2.0**-24 * (4 + math.sqrt(C * K * K)) * size + 2.0**-126
        finite = torch.isfinite(want)
        ratio = float(((y - want).abs() / limit)[finite].max())
        same = alike(y[~finite], want[~finite].float())
        single = True
        for i in (0, 1, n // 2, n - 1):
            image = torch.full_like(y[:1], math.nan)
            single &= alike(build(x[i : i + 1].clone(), k, image), y[i : i + 1])
        bad |= not (ratio <= 1 and same and single)
        said.append(
            f"{kind} {ratio:.3f}{'' if same else ', infinities differ'}{'' if single else ', a single image differs'}"
        )
    print(f"{name} {build.name}: fraction of the bound " + ", ".join(said), flush=True)
    return bad


def timed(calls, repeat, row):
    """Return the median milliseconds per call of each function; the functions are called in turns."""
    times = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(repeat):
        for call, mine in zip(calls, times):
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(row):
                call()
            stop.record()
            stop.synchronize()
            mine.append(start.elapsed_time(stop) / row)
    return [statistics.median(mine) for mine in times]


def in_graph(call, count):
    """Capture `count` calls as one CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    return graph.replay


def time_layer(builds, name, n, repeat, cudnn):
    C, H, W, M, K, _ = LAYERS[name]
    x, k = inputs("reals", (n, C, H, W), (M, C, K, K))
    y = torch.empty(n, M, H - K + 1, W - K + 1, device="cuda")
    calls = [lambda build=build: build(x, k, y) for build in builds]
    names = [build.name for build in builds]
    if cudnn:
        calls.append(lambda: torch.nn.functional.conv2d(x, k))
        names.append("cuDNN")
    if n == 1:
        calls = [in_graph(call, 20) for call in calls]
    times = [t / (20 if n == 1 else 1) for t in timed(calls, repeat, 4 if y.numel() > 1 << 26 else 20)]
    print(f"{name}, {n} images, ms: " + ", ".join(f"{a} {t:.4f}" for a, t in zip(names, times)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="+")
    parser.add_argument("--layers", default=",".join(LAYERS), help="names from this file, or C:H:W:M:K:IMAGES")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--images", help="batch sizes in place of the layers', such as 1,100")
    parser.add_argument("--cudnn", action="store_true", help="time cuDNN's float32 (benchmark mode) as well")
    parser.add_argument("--check-only", action="store_true")
    parser.add_argument("--time-only", action="store_true")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, False
    torch.manual_seed(1)
    builds = [Build(path) for path in options.libraries]
    names = options.layers.split(",")
    for name in names:
        if ":" in name:
            LAYERS[name] = tuple(int(part) for part in name.split(":"))
    bad = False
    for name in names:
        if not options.time_only:
            bad |= any([worst_of(build, name) for build in builds])
        if not options.check_only:
            for n in [int(n) for n in (options.images or str(LAYERS[name][5])).split(",")]:
                time_layer(builds, name, n, options.repeat, options.cudnn)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
