"""Runs one random convolution with every kernel that supports its shape, and compares the results with float64."""

from collections import Counter

import bounds
import numpy as np

from fashion_infer.library import bindings, kernels

from . import bound, draw, places

# Factor of the bound for data of the kind "beside". If a few values are far larger than the others, products just below
# the resolution of the partial sum are lost: errors of float32 sums of 50 to 400 such products reached 1.4 times the
# bound.
_BESIDE = 2


class Case:
    def __init__(self, seed, budget):
        rng = np.random.default_rng([seed, 0])
        self.seed, self.shape = seed, draw.shape(rng, budget)
        self.kind, self.weights = (str(rng.choice(kinds)) for kinds in (draw.KINDS, draw.WEIGHTS))
        if self.kind == "subnormal":
            self.weights = "normal"
        shape = self.shape
        self.x = draw.items(rng, (shape.B, shape.C, shape.H, shape.W), self.kind)
        self.k = draw.filters(rng, (shape.M, shape.C, shape.K, shape.K), self.weights)
        # Offsets of the addresses, in bytes: multiples of 4 for float32 values, any number for uint8. Half of the
        # float32 offsets are 0, which is the alignment of an allocator.
        floats = [0, 0, 0, 0, 4, 8, 12, 4]
        x_offset = rng.choice([0, 0, 1, 2, 3, 4, 8, 15] if self.kind == "uint8" else floats)
        self.offsets = int(x_offset), int(rng.choice(floats)), int(rng.choice(floats))
        first = int(rng.integers(shape.B))
        self.part = slice(first, int(rng.integers(first, shape.B)) + 1)
        self.marked = int(rng.integers(shape.B))  # this image gets the value `mark` in _check_independence
        self.mark = np.float32(rng.choice([np.inf, -np.inf, np.nan, 1e30, 1e-30]))

    @property
    def tame(self):
        """Return whether the bound applies to kernels of lower precision for this data."""
        return self.kind in draw.TAME and self.weights == "normal"

    def __str__(self):
        return f"{self.shape}, {self.kind} data, {self.weights} weights, offsets {self.offsets}"


def run(place, seed, only=None):
    """Run one random convolution with the kernels of a place (`places.Cpu` or `places.Gpu`).

    `only` has names of kernels; by default all kernels and "auto" run. Return the failures as (kind of failure, text),
    a Counter with each kernel's largest error as a multiple of its bound, and the number of passes.
    """
    case, failures, worst, passes = Case(seed, place.budget), [], Counter(), 0
    conv = kernels.describe(case.x.shape, case.k.shape, case.x.dtype)
    x, k = (place.buffer(array, offset) for array, offset in zip((case.x, case.k), case.offsets))
    x64, k64 = place.double(x.values), place.double(k.values)
    with np.errstate(all="ignore"):
        want, magnitude = place.convolve(x64, k64), place.convolve(abs(x64), abs(k64))
        for name, precision in places.table(place):
            if (only and name not in only) or not places.takes(place, name, conv):
                continue
            if precision != "float32" and not case.tame:
                continue
            passes += 1
            y = place.empty(case.shape.output, case.offsets[2])
            if place.forward(name, conv, x, k, y) != bindings.OK:
                failures.append(((name, case.kind, "refused"), f"{name}, {case}: {bindings.message()}"))
                continue
            more = bounds.times(name, case.k[0].size) if place.backend == "gpu" and precision == "float32" else 1
            limit = bound.of_sum(case.k[0].size, magnitude, precision)
            limit = limit * max(more, _BESIDE if case.kind == "beside" else 1)
            alike, ratio = bound.worst(place.xp, place.double(y.values), want, limit)
            flags = alike, ratio, y.intact(), x.intact() & k.intact()
            others = list(_check_independence(place, case, name, y, k)) if case.shape.B > 1 else []
            alike, ratio, inside, inputs = place.numbers(flags)
            worst[name] = max(worst[name], ratio)
            found = [
                *([] if alike else ["infinities or NaN are not where they belong"]),
                *([] if ratio <= 1 else [f"an error of {ratio:.3g} times the bound"]),
                *([] if inside else ["wrote beside the output"]),
                *([] if inputs else ["wrote beside an input"]),
                *others,
            ]
            failures += [((name, case.kind, text.split(" of ")[0]), f"{name}, {case}: {text}") for text in found]
    if not _unchanged(place, case, x, k):
        failures.append((("inputs",), f"{case}: a kernel wrote into its inputs"))
    return failures, worst, passes


def _check_independence(place, case, name, y, k):
    """Yield a failure if an image's result changes, even in one bit, with the number or content of other images."""
    whole, part, marked = place.bits(y.values), case.part, case.x.copy()
    marked[case.marked].flat[case.seed % marked[case.marked].size] = 0 if case.kind == "uint8" else case.mark
    others = [image for image in range(case.shape.B) if image != case.marked]
    tries = [
        (case.x[part], whole[part], slice(None), f"images {part.start} to {part.stop} alone give other bits"),
        (marked, whole[others], others, f"{case.mark:g} in image {case.marked} changes other images"),
    ]
    for images, wanted, shown, text in tries:
        x = place.buffer(images, case.offsets[0])
        out = place.empty((len(images), *case.shape.output[1:]), case.offsets[2])
        conv = kernels.describe(images.shape, case.k.shape, images.dtype)
        if place.forward(name, conv, x, k, out) != bindings.OK:
            yield bindings.message()
            continue
        found = place.bits(out.values)[shown]
        # NaNs with different bits count as equal.
        if not all(place.numbers([((found == wanted) | _is_nan(found) & _is_nan(wanted)).all()])):
            yield text


def _is_nan(bits):
    return (bits & 0x7FFFFFFF) > 0x7F800000


def _unchanged(place, case, x, k):
    """Return whether the bits of the inputs x and k are those that the case has drawn."""
    fresh = [place.buffer(array, 0) for array in (case.x, case.k)]
    pairs = zip((x, k), fresh)
    return all(place.numbers([(_bytes(place, used) == _bytes(place, new)).all() for used, new in pairs]))


def _bytes(place, buffer):
    flat = buffer.values.reshape(-1)
    return flat if "uint8" in str(flat.dtype) else place.bits(flat)
