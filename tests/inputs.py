"""Random inputs and weights of several kinds, which test the rounding of sums.

Besides this package, the module needs only NumPy.
"""

import numpy as np
import reference

_SUBNORMAL = 2.0**-126


def _signs(rng, shape):
    return rng.choice([-1.0, 1.0], shape)


# Kind: function (generator, shape) -> array of random values.
KINDS = {
    "pixels": lambda rng, shape: rng.integers(0, 256, shape),
    "activations": lambda rng, shape: np.tanh(rng.standard_normal(shape) * 2),
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "constant": lambda rng, shape: np.full(shape, rng.uniform(-3, 3)),
    "positive": lambda rng, shape: rng.uniform(0.9, 1.1, shape),
    "wide": lambda rng, shape: _signs(rng, shape) * 10 ** rng.uniform(-30, 30, shape),
    "half wide": lambda rng, shape: _signs(rng, shape) * 10 ** rng.uniform(-15, 15, shape),
    "tiny": lambda rng, shape: rng.standard_normal(shape) * 10 ** rng.uniform(-38, -30),
    "subnormal": lambda rng, shape: rng.standard_normal(shape) * _SUBNORMAL / 8,
    "mostly zero": lambda rng, shape: rng.standard_normal(shape) * (rng.random(shape) < 0.05),
    "large": lambda rng, shape: rng.standard_normal(shape) * 10 ** rng.uniform(30, 38),
}


def draw(kind, rng, shape):
    """Return random values of a kind: float32, or for the kind "pixels" sometimes uint8."""
    if kind == "pixels" and rng.integers(2):
        return reference.pixels(rng, shape)
    return np.clip(KINDS[kind](rng, shape), -3.4e38, 3.4e38).astype(np.float32)


def spike(rng, shape):
    """Return random weights of the worst case for sums that add one product after another."""
    values = np.full(shape, 0.99 * 2.0**-24) * rng.uniform(0.5, 1)
    flat = values.reshape(shape[0], -1)
    flat[np.arange(shape[0]), rng.integers(0, flat.shape[1], shape[0]) * rng.integers(0, 2, shape[0])] = 1
    return values.astype(np.float32)


def with_specials(x, rng, count=2):
    """Return a float32 copy of x in which `count` values, chosen at random, are infinite or NaN."""
    x = np.array(x, np.float32)
    x.reshape(-1)[rng.integers(0, x.size, count)] = rng.choice([np.inf, -np.inf, np.nan], count)
    return x


def parts(rng, n):
    """Return three slices of n items: the first half, the last item, and a random part."""
    begin = int(rng.integers(n))
    return [slice(0, (n + 1) // 2), slice(n - 1, n), slice(begin, int(rng.integers(begin, n)) + 1)]
