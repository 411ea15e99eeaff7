#!/usr/bin/env python3
"""Development bench of the CUDA kernels: check every variant against float64, then time it beside its peers.

For whoever works on custom_ops/cuda: it needs PyTorch with CUDA and a built libfashion_ops.so, nothing else of the
project. The product's command is `fashion-infer bench conv`.
"""

import argparse
import ctypes
import statistics

import torch

LAYERS = {  # name: (C, H, M)
    "fa2017": (1, 28, 50),
    "fa2019.1": (1, 70, 12),
    "fa2019.2": (12, 33, 24),
    "sp2018.1": (1, 64, 6),
    "sp2018.2": (6, 30, 16),
}


class Conv(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64) for n in "BCHWMK"] + [("x_type", ctypes.c_int)]


class Info(ctypes.Structure):
    _fields_ = [(n, ctypes.c_char_p) for n in ("name", "summary", "requires", "precision")]


def load(path):
    lib = ctypes.CDLL(path)
    lib.fops_last_error.restype = ctypes.c_char_p
    lib.fops_conv_forward_cuda.argtypes = [ctypes.c_char_p, ctypes.POINTER(Conv)] + [ctypes.c_void_p] * 4
    lib.fops_conv_check.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(Conv), ctypes.c_void_p]
    names = []
    for i in range(lib.fops_kernel_count(1)):
        info = Info()
        assert lib.fops_kernel_describe(1, i, ctypes.byref(info)) == 0
        names.append(info.name.decode())
    return lib, names


def forward(lib, name, conv, x, k, y):
    stream = torch.cuda.current_stream().cuda_stream
    status = lib.fops_conv_forward_cuda(
        name.encode(), ctypes.byref(conv), x.data_ptr(), k.data_ptr(), y.data_ptr(), stream
    )
    if status:
        raise RuntimeError(f"{name}: {lib.fops_last_error().decode()}")


def timed(run, repeat):
    """Milliseconds of each of `repeat` runs. All are queued before the first is waited for, so that the host's share
    of a launch, some microseconds in which the device would idle, stays out of everyone's time."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeat + 1)]
    torch.cuda._sleep(2_000_000)  # a millisecond of head start for the host
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    events[-1].synchronize()
    return [a.elapsed_time(b) for a, b in zip(events, events[1:])]


def reference(x, k):
    with torch.backends.cudnn.flags(enabled=False):
        return torch.nn.functional.conv2d(x.double(), k.double())


def error(x, k, y, exact=None, sample=256):
    """Largest error over the largest magnitude, on the first and last images; NaN counts as infinite."""
    worst, top = 0.0, 0.0
    for part in {slice(0, sample), slice(max(0, len(x) - sample), len(x))} if len(x) > sample else [slice(0, len(x))]:
        want = reference(x[part], k)
        worst = max(worst, (want - y[part].double()).abs().nan_to_num(nan=float("inf")).max().item())
        top = max(top, want.abs().max().item())
    return worst / top


def inputs(layer, batch, kind="auto"):
    C, H, M = LAYERS[layer]
    generator = torch.Generator("cuda").manual_seed(0)
    if kind == "pixels" or (kind == "auto" and C == 1):
        x = torch.randint(0, 256, (batch, C, H, H), generator=generator, device="cuda").float()
    else:
        x = torch.tanh(torch.randn(batch, C, H, H, generator=generator, device="cuda"))
    k = torch.randn(M, C, 5, 5, generator=generator, device="cuda")
    y = torch.empty(batch, M, H - 4, H - 4, device="cuda")
    return x, k, y, Conv(batch, C, H, H, M, 5, 0)


def peers(x, k, y):
    """Peers as closures: fill, and cuDNN in the layout and precision given."""

    def cudnn(tf32, channels_last):
        memory = torch.channels_last if channels_last else torch.contiguous_format
        a, b = x.contiguous(memory_format=memory), k.contiguous(memory_format=memory)

        def run():
            with torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=tf32):
                torch.nn.functional.conv2d(a, b)

        return run

    return {
        "fill": lambda: y.fill_(1.0),
        "cudnn fp32": cudnn(False, False),
        "cudnn fp32 nhwc": cudnn(False, True),
        "cudnn tf32": cudnn(True, False),
        "cudnn tf32 nhwc": cudnn(True, True),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library")
    parser.add_argument("--layers", default=",".join(LAYERS))
    parser.add_argument("--kernels", default="all")
    parser.add_argument("--batch", type=int, default=10000)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--peers", action="store_true")
    args = parser.parse_args()
    lib, names = load(args.library)
    if args.kernels != "all":
        names = args.kernels.split(",")
    for layer in args.layers.split(","):
        x, k, y, conv = inputs(layer, args.batch)
        runs, errors = {}, {}
        everyone = peers(x, k, y)
        runs["fill"] = everyone.pop("fill")
        for name in names:
            if lib.fops_conv_check(1, name.encode(), ctypes.byref(conv), None):
                continue
            y.fill_(float("nan"))
            try:
                forward(lib, name, conv, x, k, y)
                torch.cuda.synchronize()
            except RuntimeError as failure:
                print(f"{layer:9} {name}: {failure}", flush=True)
                continue
            errors[name] = error(x, k, y) if not y.isnan().any().item() else float("nan")
            runs[name] = lambda name=name: forward(lib, name, conv, x, k, y)
        if args.peers:
            runs.update(everyone)
        times = {name: [] for name in runs}
        for name, run in runs.items():
            timed(run, 2)
        rounds = 4
        for _ in range(rounds):  # interleaved, so that a clock that drifts drifts for all
            for name, run in runs.items():
                slow = statistics.median(times[name]) > 8 if times[name] else False
                times[name] += timed(run, 1 if slow else -(-args.repeat // rounds))
        fill = statistics.median(times["fill"])
        for name, values in times.items():
            median = statistics.median(values)
            gflop = 2 * y.numel() * k[0].numel() / median / 1e9
            gb = 4 * (x.numel() + y.numel()) / median / 1e6
            print(
                f"{layer:9} {name:20} {min(values):8.3f} {median:8.3f} ms {median / fill:7.2f} x fill "
                f"{gb:7.0f} GB/s {gflop:6.1f} TFLOP/s {errors.get(name, float('nan')):.1e}",
                flush=True,
            )
        if "tensor-core" in errors:
            extra = {"float": x * 0.7317, "tiny": x * 1e-9, "huge": x * 1e9}
            for label, other in extra.items():
                y.fill_(float("nan"))
                forward(lib, "tensor-core", conv, other, k, y)
                print(
                    f"{layer:9} tensor-core error on {label} input {error(other, k, y):.1e} "
                    f"time {statistics.median(timed(lambda: forward(lib, 'tensor-core', conv, other, k, y), 5)):.3f}"
                )
        del x, k, y, runs, everyone
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
