#!/usr/bin/env python3
"""Runs every CUDA kernel on small shapes and compares the results with float64, for compute-sanitizer.

Only NumPy is used, so that nothing but our kernels runs on the device. With --quick, each shape has one image (except
for large batches), and two of the four kinds of inputs are used, because some tools slow a kernel down a thousandfold.
Names on the command line select kernels; the default is all.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import library

LARGE = 140  # number of images, more than an H200's multiprocessors; with fewer images, some shapes use other kernels
# B, C, H, W, M, K: the course's layers, then shapes whose sizes are no multiples of the kernels' tiles.
SHAPES = [(2, *layer) for layer in library.COURSE_LAYERS.values()] + [
    (3, 1, 29, 31, 9, 5),
    (2, 1, 50, 17, 33, 5),
    (2, 1, 28, 29, 6, 5),
    (2, 5, 13, 23, 7, 3),
    (2, 5, 17, 23, 9, 5),
    (1, 64, 9, 11, 8, 3),
    (2, 3, 20, 18, 32, 7),
    (3, 4, 9, 9, 1, 1),
    (2, 3, 15, 46, 64, 7),
    (2, 100, 5, 9, 70, 1),
    (2, 64, 8, 6, 20, 1),
    (2, 2, 12, 121, 100, 8),
    (1, 2, 6, 6, 70, 4),
    (1, 128, 8, 8, 70, 5),
    (LARGE, 8, 6, 7, 70, 3),
    (LARGE, 5, 6, 7, 9, 3),
    (LARGE, 5, 9, 9, 9, 5),
]


def main():
    rng = np.random.default_rng(0)
    failures = passes = 0
    quick = "--quick" in sys.argv[1:]
    chosen = [name for name in sys.argv[1:] if name != "--quick"]
    for B, C, H, W, M, K in SHAPES:
        B = 1 if quick and B < LARGE else B
        k = rng.standard_normal((M, C, K, K)).astype(np.float32)
        pixels = rng.integers(0, 256, (B, C, H, W)).astype(np.uint8)
        reals = rng.uniform(-1, 1, (B, C, H, W)).astype(np.float32)
        inputs = [pixels, pixels.astype(np.float32), reals, reals * np.float32(1e-9)]
        if quick:
            inputs = inputs[1:3]
        wanted = [library.reference(x, k) for x in inputs]
        for name, precision in library.kernels():
            if chosen and name not in chosen:
                continue
            for x, want in zip(inputs, wanted):
                if not library.takes(name, library.conv_of(x, k)):
                    continue
                status, y = library.on_device(name, x, k)
                wrong = np.inf if status else library.error(y, want)
                passes += 1
                if not wrong <= library.TOLERANCE[precision]:
                    failures += 1
                    print(f"{name} {(B, C, H, W, M, K)} {x.dtype}: error {wrong:.2e} {library.message()}")
    print(f"{passes} passes, {failures} wrong")
    return 1 if failures or not passes else 0


if __name__ == "__main__":
    sys.exit(main())
