#!/usr/bin/env python3
"""Measures what `bench conv` and `bench net` do not: many shapes beside cuDNN, and one GPU beside all of this host.

    scripts/gpu_bench.py shapes [--batch 100] [--count 300] [--seed 1]       (--batch 0: 1.5 GB of images and outputs)
    scripts/gpu_bench.py gpus [--edition fa2017] [--images 10000000] [--batch 100000] [--repeat 3]

Needs a built library (FASHION_OPS_LIBRARY) and PyTorch; no MXNet.
"""

import argparse
import random
import statistics
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fashion_infer.bench import random_network
from fashion_infer.bench.machines import open_machine
from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.judging import networks
from fashion_infer.library import kernels
from fashion_infer.library.devices import cuda_devices
from fashion_infer.library.fused import FusedNetwork
from fashion_infer.system.sharing import share

CHANNELS, FILTERS = (1, 3, 4, 16, 32, 64, 128), (4, 16, 32, 64, 128)
KERNEL_SIDES, IMAGE_SIDES = (1, 3, 5, 7), (14, 28, 56, 112)
LARGEST = 1_500_000_000  # bytes of images and outputs with --batch 0
BEHIND = 0.8  # fraction of a peer's speed below which a shape is printed again
LANES, BUFFERS, CHECKED = 3, 4, 256  # threads per GPU, pinned buffers, images that are compared with float64


def milliseconds(torch, call, asked):
    """Return a function that times one call, in a CUDA graph of several, which excludes the calls from Python."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        call()  # cuDNN tries its algorithms
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(asked.calls):
            call()

    def time():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(), graph.replay(), end.record(), end.synchronize()
        return start.elapsed_time(end) / asked.calls

    return time


def one_shape(torch, shape, asked):
    """Time `auto` and cuDNN on a shape, in turns; return the median of each, and whether `auto` is right."""
    x, k = (torch.randn(size, device="cuda") for size in (shape.data, shape.weights))
    y, conv = torch.empty(shape.output, device="cuda"), kernels.describe(shape.data, shape.weights)

    def ours():
        pointers = (tensor.data_ptr() for tensor in (x, k, y))
        kernels.launch("auto", conv, *pointers, torch.cuda.current_stream().cuda_stream)

    def cudnn(tf32):
        torch.backends.cudnn.allow_tf32 = tf32
        torch.nn.functional.conv2d(x, k)

    calls = {"auto": ours, "cuDNN fp32": lambda: cudnn(False), "cuDNN tf32": lambda: cudnn(True)}
    timers = {name: milliseconds(torch, call, asked) for name, call in calls.items()}
    times = [{name: timer() for name, timer in timers.items()} for _ in range(asked.repeat)]
    exact = torch.nn.functional.conv2d(x[-1:].double(), k.double())
    right = (y[-1:] - exact).abs().max() <= 1e-5 * exact.abs().max()
    return {name: statistics.median(each[name] for each in times) for name in calls}, bool(right)


def shapes(asked):
    import torch

    torch.backends.cudnn.benchmark = True
    sizes = list(product(CHANNELS, FILTERS, KERNEL_SIDES, IMAGE_SIDES))
    random.Random(asked.seed).shuffle(sizes)
    ratios, wrong = {}, 0
    for channels, filters, taps, side in sizes[: asked.count]:
        one = ConvolutionShape(1, channels, side, side, filters, taps)
        fitting = LARGEST // one.bytes
        shape = one._replace(B=asked.batch or min(fitting, 20_000))
        medians, right = one_shape(torch, shape, asked)
        wrong += not right
        ours = medians.pop("auto")
        for name, peer in medians.items():
            ratios.setdefault(name, []).append((peer / ours, shape.title))
        said = ", ".join(f"x {peer / ours:.2f} {name}" for name, peer in medians.items())
        print(f"{shape.title}: {ours:.4g} ms, {said}", flush=True)
    for name, found in ratios.items():
        values = [ratio for ratio, _ in found]
        ahead = sum(ratio >= 1 for ratio in values) / len(values)
        print(f"{name}: {len(found)} shapes, at least as fast on {ahead:.1%}, geometric mean "
              f"{statistics.geometric_mean(values):.2f}")  # fmt: skip
        print(*(f"  {ratio:.2f} {title}" for ratio, title in sorted(found) if ratio < BEHIND), sep="\n")
    print(f"{wrong} shapes wrong")
    return int(bool(wrong))


def gpus(asked):
    """Classify images from pinned buffers, which are reused, with one GPU and with all, in turns."""
    network, machine = random_network.build(asked.edition), open_machine("gpu")
    found, batch = [device.index for device in cuda_devices()], min(asked.batch, asked.images)
    images = network.images(batch)
    buffers = [machine.tensors.pinned(np.roll(images, 97 * place, axis=0)) for place in range(BUFFERS)]

    def lane(gpu):
        fused = FusedNetwork(network.symbol, network.weights, shape=network.shape, backend="gpu", device=gpu)
        return fused, machine.tensors.pinned(np.empty(batch, np.int32))

    def predict(lane, first):
        fused, classes = lane
        part = predictions[first : first + batch]
        part[...] = fused.predict(buffers[first // batch % BUFFERS][: len(part)], out=classes[: len(part)])

    lanes = {gpu: [lane(gpu) for _ in range(LANES)] for gpu in found}
    predictions = np.empty(asked.images, np.uint8)
    for each in (one for some in lanes.values() for one in some):  # first runs allocate memory and load kernels
        predict(each, 0)
    wanted = [lanes[found[0]][0][0].predict(buffer).astype(np.uint8) for buffer in buffers]
    picked = np.unique(np.linspace(0, batch - 1, CHECKED).astype(int))
    logits = network.logits()
    exact = networks.run(logits.layers, logits.weights, images[picked]).argmax(axis=1)
    wrong = int((wanted[0][picked] != exact).sum())
    seconds = {}
    for _ in range(asked.repeat):
        for used in dict.fromkeys([tuple(found[:1]), tuple(found)]):
            predictions.fill(255)
            start = time.perf_counter()
            share([one for gpu in used for one in lanes[gpu]], range(0, asked.images, batch), predict)
            seconds.setdefault(used, []).append(time.perf_counter() - start)
            for first in range(0, asked.images, batch):
                part = predictions[first : first + batch]
                wrong += int((part != wanted[first // batch % BUFFERS][: len(part)]).sum())
    alone = statistics.median(seconds[tuple(found[:1])])
    for used, times in seconds.items():
        median = statistics.median(times)
        rate, ratio = asked.images / median, alone / median
        print(f"{len(used)} GPUs: {median:.3f} s, {rate:,.0f} images/s, {ratio:.2f} x one GPU")
    print(f"{wrong:,} predictions differ")
    return int(bool(wrong))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("shapes")
    one.set_defaults(run=shapes)
    for option, value in (("--batch", 100), ("--count", 300), ("--seed", 1), ("--repeat", 7), ("--calls", 10)):
        one.add_argument(option, type=int, default=value)
    other = commands.add_parser("gpus")
    other.set_defaults(run=gpus)
    other.add_argument("--edition", default="fa2017")
    for option, value in (("--images", 10_000_000), ("--batch", 100_000), ("--repeat", 3)):
        other.add_argument(option, type=int, default=value)
    asked = parser.parse_args()
    return asked.run(asked)


if __name__ == "__main__":
    sys.exit(main())
