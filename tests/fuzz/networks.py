"""Runs one random fused network on a batch, compares with float64, and checks that sub-batches give the same bits."""

from collections import Counter

import chains
import numpy as np

from fashion_infer.errors import FashionInferError
from fashion_infer.library import bindings

from . import bound, draw

_KINDS = ("uint8", "pixels", "tanh", "relu", "normal")
_MOST_ITEMS = 70
_PARTS = 3


class Case:
    def __init__(self, seed, budget):
        rng = np.random.default_rng([seed, 1])
        self.seed, self.kind = seed, str(rng.choice(_KINDS))
        pooled = rng.random() < 0.25
        self.chain = chains.with_pools(rng) if pooled else chains.Chain(*draw.layers(rng, budget // 64))
        self.weights = self.chain.weights(seed, self.kind in ("uint8", "pixels"), float(rng.choice([0.5, 1.5, 4.0])))
        self.n = draw.log_uniform(rng, 1, _MOST_ITEMS)
        self.x = draw.items(rng, (self.n, *self.chain.shape), self.kind)
        self.offsets = int(rng.choice([0, 0, 1, 2, 4, 12] if self.kind == "uint8" else [0, 0, 4, 8])), 4
        firsts = rng.integers(0, self.n, _PARTS)
        self.parts = [slice(int(first), int(rng.integers(first, self.n)) + 1) for first in firsts]
        self.threads = int(rng.integers(1, 17))
        self.marked = int(rng.integers(self.n))  # this image gets the value `mark` in _neighbours
        self.mark = float(rng.choice([np.inf, -np.inf, np.nan]))

    def __str__(self):
        return f"{self.chain}, {self.n} items of {self.kind}, offsets {self.offsets}"


def run(place, seed, only=None):
    """Run one random network; return what `convolutions.run` returns. `only` is ignored."""
    case, worst = Case(seed, place.budget), Counter()
    try:
        network = case.chain.fused(case.weights, backend=place.backend)
        failures = [
            (("network", what.split(" of ")[0]), f"{case}: {what}") for what in _wrong(place, case, network, worst)
        ]
    except FashionInferError as error:
        failures = [(("network", "refused"), f"{case}: {error}")]
    return failures, worst, 1


def _wrong(place, case, network, worst):
    x = place.buffer(case.x, case.offsets[0])
    with np.errstate(all="ignore"):
        want, limit = bound.chain(place, case.chain.layers, case.weights, x.values)
        whole = _forward(place, case, network, x.values)
        alike, ratio = bound.worst(place.xp, place.double(whole.values), want, limit)
        alike, ratio, inside, inputs = place.numbers((alike, ratio, whole.intact(), x.intact()))
        from_host = network.forward(case.x)
        _, host_ratio = bound.worst(place.xp, place.double(from_host), want, limit)
    worst["device"], worst["host"] = ratio, place.numbers([host_ratio])[0]
    for way, figure in worst.items():
        if not figure <= 1:
            yield f"from the {way} an error of {figure:.3g} times what the bound of each layer allows"
    if not inside or not inputs:
        yield "wrote beside its output or input"
    if not np.array_equal(network.predict(case.x), from_host.argmax(1)):
        yield "predictions are not where the largest scores are"
    yield from _parts(place, case, network, x, whole, from_host)
    if case.kind != "uint8":
        yield from _neighbours(place, case, network, whole)


def _forward(place, case, network, values):
    out = place.empty((len(values), int(np.prod(network.stages[-1].output))), case.offsets[1])
    place.run(network, values, out.values)
    return out


def _parts(place, case, network, x, whole, from_host):
    """Yield a failure if an image's result changes with its batch or with the number of threads."""
    threads = bindings.thread_count()
    try:
        if place.backend == "cpu":
            bindings.set_threads(case.threads)
        for part in case.parts:
            y = _forward(place, case, network, x.values[part])
            same = place.bits(y.values) == place.bits(whole.values[part])
            if not all(place.numbers([same.all(), y.intact()])):
                yield f"items {part.start} to {part.stop} alone give other bits (on {case.threads} threads)"
            if not np.array_equal(network.forward(case.x[part]).view(np.int32), from_host[part].view(np.int32)):
                yield f"from the host items {part.start} to {part.stop} alone give other bits"
    finally:
        bindings.set_threads(threads)


def _neighbours(place, case, network, whole):
    """Yield a failure if an infinity or NaN in one image changes the result of another image."""
    marked = case.x.copy()
    marked[case.marked].flat[case.seed % marked[case.marked].size] = case.mark
    y = _forward(place, case, network, place.buffer(marked, case.offsets[0]).values)
    same = (place.bits(y.values) == place.bits(whole.values)).all(1)
    if not all(place.numbers([same[: case.marked].all(), same[case.marked + 1 :].all()])):
        yield f"{case.mark} in image {case.marked} changed other images"
