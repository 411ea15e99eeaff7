#!/usr/bin/env python3
"""Every stage of the fused mode's CUDA executor over small networks, against the CPU: what compute-sanitizer watches.

NumPy and ctypes alone, so that nothing but our kernels runs on the device. Numbers select networks; default: all. With
--quick fewer passes, for the tools that slow a kernel down a thousandfold.
"""

import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]
import fused_nets  # noqa: E402

CHAINS = [fused_nets.course(name) for name in fused_nets.COURSE] + [
    fused_nets.Chain([("conv", 9, 5), "tanh", "pool", ("dense", 33), "tanh", ("dense", 16), "softmax"], (1, 15, 13)),
    fused_nets.Chain([("conv", 64, 5), "tanh", "pool", ("dense", 3)], (1, 12, 19), bias=False),
    fused_nets.Chain([("conv", 24, 5), "tanh", "pool", ("conv", 8, 3), "tanh", "pool", ("dense", 70)], (1, 22, 22)),
    fused_nets.Chain([("conv", 5, 3), "pool", ("dense", 40), ("dense", 20), "softmax"], (3, 9, 11)),
    fused_nets.Chain(["pool", "tanh", ("dense", 17), "tanh"], (2, 7, 6)),
    fused_nets.Chain([("dense", 200), "tanh", ("dense", 100), "tanh", "softmax"], (90,)),
]


def main():
    quick = "--quick" in sys.argv[1:]
    chosen = [int(each) for each in sys.argv[1:] if each != "--quick"] or range(len(CHAINS))
    failures = passes = 0
    for number in chosen:
        chain = CHAINS[number]
        for kind in ("uint8", "reals"):
            weights = chain.weights(pixels=kind != "reals")
            cpu, gpu = chain.net(weights, backend="cpu"), chain.net(weights)
            sizes = (2, 2, 2, 3) if quick else (2, 2, 2, 3, 70, 1100, 1100)  # repeated: by a graph
            if number < len(fused_nets.COURSE):
                sizes = sizes[:3]
            for i, n in enumerate(sizes):
                images = chain.images(n, kind, seed=i)
                want = cpu.forward(images)
                y = gpu.forward(images, out=np.full_like(want, np.nan))
                wrong = np.abs(y - want).max() / np.abs(want).max()
                passes += 1
                if not wrong <= 1e-5:
                    failures += 1
                    print(f"network {number}, {n} of {kind}: error {wrong:.2e}")
            weights = chain.weights(seed=1, pixels=kind != "reals")
            gpu.set_weights(weights), cpu.set_weights(weights)
            images = chain.images(2, kind)
            if not np.abs(gpu.forward(images) - cpu.forward(images)).max() <= 1e-5 * np.abs(cpu.forward(images)).max():
                failures += 1
                print(f"network {number}, {kind}: wrong after a change of weights")
    print(f"{passes} passes, {failures} wrong")
    return 1 if failures or not passes else 0


if __name__ == "__main__":
    sys.exit(main())
