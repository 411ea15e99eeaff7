#!/usr/bin/env python3
"""Runs every CUDA kernel on small shapes and compares the results with float64, for compute-sanitizer.

Only NumPy is used, so that nothing but our kernels runs on the device. With --quick, each shape has one image (except
for large batches) and two of the four kinds of inputs. The ladder's kernels, whose branches depend on neither values
nor batch size, get smaller shapes, and one kind each: some tools slow a kernel down a thousandfold. Names on the
command line select kernels; the default is all.
"""

import functools
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import library

from fashion_infer.library.kernels import describe

# Numbers of images for which some shapes use other kernels: more than an H200's multiprocessors, and 8 times as many.
LARGE, MANY = 140, 1056
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
    (LARGE, 12, 9, 10, 24, 5),
    (LARGE, 4, 9, 14, 16, 7),
    (LARGE, 3, 6, 38, 40, 5),
    (LARGE, 64, 3, 7, 20, 1),
    (LARGE, 1, 9, 12, 12, 5),
    (MANY, 1, 10, 32, 33, 5),
    (1, 1, 38, 71, 1, 5),
]

KINDS = ("uint8", "pixels", "reals", "tiny")
# Most multiply-adds with --quick of the ladder's kernels, and of those that take only the course's layers.
LADDER_WORK, COURSE_WORK = 60_000, 1_000_000


@functools.lru_cache(maxsize=None)
def problem(shape, kind):
    """Return data, weights and the float64 results of a shape (B, C, H, W, M, K)."""
    B, C, H, W, M, K = shape
    rng = np.random.default_rng(0)
    k = rng.standard_normal((M, C, K, K)).astype(np.float32)
    if kind in ("uint8", "pixels"):
        x = rng.integers(0, 256, (B, C, H, W)).astype(np.uint8 if kind == "uint8" else np.float32)
    else:
        x = rng.uniform(-1, 1, (B, C, H, W)).astype(np.float32) * np.float32(1e-9 if kind == "tiny" else 1)
    return x, k, library.reference(x, k)


def takes(name, shape, kind="reals"):
    B, C, H, W, M, K = shape
    return library.takes(name, describe((B, C, H, W), (M, C, K, K), np.uint8 if kind == "uint8" else np.float32))


def work(shape):
    """Return the number of multiply-adds of a shape."""
    B, C, H, W, M, K = shape
    return B * C * M * K * K * (H - K + 1) * (W - K + 1)


def smaller(name, shape):
    """Return a shape for a kernel of the ladder with --quick, whose images are smaller; None if there is none."""
    B, C, H, W, M, K = min(shape[0], 2), *shape[1:]
    cut = B, C, H, W, M, K
    while work(cut) > LADDER_WORK and max(H, W) > K:
        H, W = (K + (H - K) // 2, W) if H >= W else (H, K + (W - K) // 2)
        cut = B, C, H, W, M, K
    if takes(name, cut):
        return cut
    return (1, *shape[1:]) if work((1, *shape[1:])) <= COURSE_WORK else None


def passes(name, quick):
    """Yield shape and kind of data of each pass of a kernel."""
    ladder = not name.startswith("tensor-core") or name == "tensor-core-tile"
    for number, shape in enumerate(SHAPES):
        kinds = KINDS
        if quick:
            shape = smaller(name, shape) if ladder else (shape[0] if shape[0] >= LARGE else 1, *shape[1:])
            kinds = ("uint8" if shape and takes(name, shape, "uint8") else "pixels", "reals")
            kinds = (kinds[number % 2],) if ladder else kinds
        if shape:
            yield from ((shape, kind) for kind in kinds if takes(name, shape, kind))


def main():
    failed = passed = 0
    chosen = [name for name in sys.argv[1:] if name != "--quick"]
    for name, precision in library.kernels():
        if chosen and name not in chosen:
            continue
        for shape, kind in passes(name, "--quick" in sys.argv[1:]):
            x, k, want = problem(shape, kind)
            status, y = library.on_device(name, x, k)
            wrong = np.inf if status else library.error(y, want)
            passed += 1
            if not wrong <= library.TOLERANCE[precision]:
                failed += 1
                print(f"{name} {shape} {kind}: error {wrong:.2e} {library.message()}")
    print(f"{passed} passes, {failed} wrong")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
