"""Random networks: chains of the layers that the fused mode knows, as MXNet symbols with weights."""

import itertools

import numpy as np
from hypothesis import strategies as st


@st.composite
def chains(draw, most_layers=7):
    """(shape of an item (C,H,W), layers as `reference.forward` takes them); at least one convolution or dense layer."""
    shape = _, h, w = draw(st.integers(1, 5)), draw(st.integers(1, 24)), draw(st.integers(1, 24))
    layers, flat = [], False
    for _ in range(draw(st.integers(1, most_layers))):
        kinds = ["tanh", "dense", "flatten"] + ["convolution"] * (not flat)
        kinds += ["pool"] * (not flat and h > 1 and w > 1)
        kind = draw(st.sampled_from(kinds))
        if kind == "convolution":
            k, m = draw(st.integers(1, min(5, h, w))), draw(st.integers(1, 20))
            layers.append((kind, k, m))
            h, w = h - k + 1, w - k + 1
        elif kind == "dense":
            units = draw(st.integers(1, 150))
            layers.append((kind, units, draw(st.booleans())))
            h, w, flat = 1, 1, True
        else:
            layers.append((kind,))
            h, w = (h // 2, w // 2) if kind == "pool" else (h, w)
            flat = flat or kind == "flatten"
    if not any(kind in ("convolution", "dense") for kind, *_ in layers):
        layers.append(("dense", draw(st.integers(1, 20)), True))
        flat = True
    if flat and draw(st.booleans()):
        layers.append(("softmax",))
    return shape, layers


def weights(shape, layers, rng, pixels=False):
    """Arrays for the chain, (name, float32 array) in the order of its layers; sums stay of order 1."""
    c, h, w = shape
    magnitude, made, counts = 150.0 if pixels else 1.0, [], itertools.count()
    for kind, *sizes in layers:
        if kind == "convolution":
            k, m = sizes
            scale = 1 / (magnitude * np.sqrt(c * k * k))
            made.append((f"layer{next(counts)}_weight", rng.standard_normal((m, c, k, k)) * scale))
            c, h, w, magnitude = m, h - k + 1, w - k + 1, 1.0
        elif kind == "dense":
            units, bias = sizes
            index = next(counts)
            made.append(
                (f"layer{index}_weight", rng.standard_normal((units, c * h * w)) / (magnitude * np.sqrt(c * h * w)))
            )
            if bias:
                made.append((f"layer{index}_bias", rng.standard_normal(units) / 4))
            c, h, w, magnitude = units, 1, 1, 1.0
        elif kind == "pool":
            h, w = h // 2, w // 2
        elif kind == "tanh":
            magnitude = 1.0
    return [(name, values.astype(np.float32)) for name, values in made]


def symbol(mx, layers, convolution="Convolution", data=None):
    """The chain as a symbol whose weights bear the names that `weights` gives them."""
    x, counts = mx.sym.Variable("data") if data is None else data, itertools.count()
    for position, (kind, *sizes) in enumerate(layers):
        if kind == "convolution":
            node, (k, m) = f"layer{next(counts)}", sizes
            weight = mx.sym.Variable(node + "_weight")
            if convolution == "New":
                x = mx.sym.New(x, weight, kernel=(k, k), num_filter=m, name=node)
            else:
                x = mx.sym.Convolution(x, weight, no_bias=True, kernel=(k, k), num_filter=m, name=node)
        elif kind == "dense":
            x = mx.sym.FullyConnected(x, num_hidden=sizes[0], no_bias=not sizes[1], name=f"layer{next(counts)}")
        elif kind == "tanh":
            x = mx.sym.Activation(x, act_type="tanh", name=f"tanh{position}")
        elif kind == "pool":
            x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name=f"pool{position}")
        elif kind == "flatten":
            x = mx.sym.Flatten(x, name=f"flatten{position}")
        else:
            x = mx.sym.softmax(x, name=f"softmax{position}")
    return x
