#!/usr/bin/env python3
"""Runs every stage of the CUDA executor on small networks and compares with the CPU, for compute-sanitizer.

Only NumPy is used, so that nothing but our kernels runs on the device. Numbers on the command line select networks; the
default is all. With --quick, fewer passes run, because some tools slow a kernel down a thousandfold.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import library  # noqa: F401, finds the package and the tests' helpers
from chains import COURSE, Chain, course

from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Softmax, Tanh

CHAINS = [
    *map(course, COURSE),
    Chain([Convolution(9, 5), Tanh(), MaxPool(), Flatten(), Dense(33), Tanh(), Dense(16), Softmax()], (1, 15, 13)),
    Chain([Convolution(64, 5), Tanh(), MaxPool(), Flatten(), Dense(3, bias=False)], (1, 12, 19)),
    Chain([Convolution(31, 5), Tanh(), MaxPool()], (1, 44, 44)),
    Chain(
        [Convolution(24, 5), Tanh(), MaxPool(), Convolution(8, 3), Tanh(), MaxPool(), Flatten(), Dense(70)], (1, 22, 22)
    ),
    Chain([Convolution(5, 3), MaxPool(), Flatten(), Dense(40), Dense(20), Softmax()], (3, 9, 11)),
    Chain([MaxPool(), Tanh(), Flatten(), Dense(17), Tanh()], (2, 7, 6)),
    Chain([Dense(200), Tanh(), Dense(100), Tanh(), Softmax()], (90,)),
    # Networks for the kernels of conv_pool/: with outputs as float and as fp16 values, odd and even numbers of
    # windows, and windows that are complete or cut off at the border.
    Chain(
        [Convolution(4, 7), Relu(), MaxPool(), Convolution(16, 7), MaxPool(4, 4, True), Flatten(), Dense(40)],
        (1, 52, 50),
    ),
    Chain([Convolution(3, 5), Tanh(), MaxPool(), Convolution(9, 7), Tanh(), MaxPool(4)], (1, 41, 42)),
    Chain([Convolution(48, 5), MaxPool(), Flatten(), Dense(40)], (1, 23, 26)),
    # ReLU after every kind of stage, and pools that are not part of another kernel, with cut-off, overlapping or
    # separate windows.
    Chain([Convolution(4, 7), Relu(), MaxPool(4, 4, True), Convolution(16, 7), MaxPool(3, 2), Relu()], (1, 86, 86)),
    Chain([Convolution(9, 5), Tanh(), MaxPool(2, 2, True), Flatten(), Dense(33), Relu(), Dense(16)], (1, 15, 13)),
    Chain([Convolution(9, 5), Relu(), MaxPool(), Flatten(), Dense(130), Relu(), Dense(9), Relu()], (1, 15, 13)),
    Chain([MaxPool(3, 1), Relu(), MaxPool(1, 3), Tanh(), Flatten(), Dense(40)], (2, 19, 17)),
    Chain([MaxPool(3, 2, True), Relu(), Flatten(), Dense(17), Relu()], (3, 12, 14)),
    Chain([Relu(), Dense(64), Relu(), Tanh(), Dense(90), Relu(), Softmax()], (63,)),
]


def main():
    quick = "--quick" in sys.argv[1:]
    chosen = [int(each) for each in sys.argv[1:] if each != "--quick"] or range(len(CHAINS))
    failures = passes = 0
    for number in chosen:
        chain = CHAINS[number]
        for kind in ("uint8", "reals"):
            weights = chain.weights(pixels=kind != "reals", gain=1.5)
            cpu, gpu = chain.fused(weights), chain.fused(weights, backend="gpu")
            sizes = (2, 2, 2, 3) if quick else (2, 2, 2, 3, 70, 1100, 1100)  # a repeated size runs as a CUDA graph
            if number < len(COURSE):
                sizes = sizes[:3]
            for i, n in enumerate(sizes):
                images = chain.items(n, kind, seed=i)
                want = cpu.forward(images)
                y = gpu.forward(images, out=np.full_like(want, np.nan))
                wrong = np.abs(y - want).max() / np.abs(want).max()
                passes += 1
                if not wrong <= 1e-5:
                    failures += 1
                    print(f"network {number}, {n} of {kind}: error {wrong:.2e}")
            weights = chain.weights(seed=1, pixels=kind != "reals", gain=1.5)
            gpu.set_weights(weights), cpu.set_weights(weights)
            images = chain.items(2, kind)
            if not np.abs(gpu.forward(images) - cpu.forward(images)).max() <= 1e-5 * np.abs(cpu.forward(images)).max():
                failures += 1
                print(f"network {number}, {kind}: wrong after a change of weights")
    print(f"{passes} passes, {failures} wrong")
    return 1 if failures or not passes else 0


if __name__ == "__main__":
    sys.exit(main())
