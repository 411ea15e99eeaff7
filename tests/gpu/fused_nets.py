"""Networks for tests and benchmarks of the fused mode: their symbol, weights, and float64 reference, without MXNet."""

import json
import os
from pathlib import Path

import library  # noqa: F401, the tests' folder must be on the path
import numpy as np

from fashion_infer.library import nets, operators

# Layers: ("conv", filters, side), "tanh", "pool", ("dense", units), "softmax". And the shape of an item.
COURSE = {
    "fa2017": ([("conv", 50, 5), "tanh", "pool", ("dense", 500), "tanh", ("dense", 10), "softmax"], (1, 28, 28)),
    "sp2018": (
        [("conv", 6, 5), "tanh", "pool", ("conv", 16, 5), ("dense", 140), "tanh", ("dense", 10), "softmax"],
        (1, 64, 64),
    ),
    "fa2019": (
        [("conv", 12, 5), "tanh", "pool", ("conv", 24, 5), ("dense", 160), "tanh", ("dense", 10), "softmax"],
        (1, 70, 70),
    ),
}


class Chain:
    """A chain of layers over items of a shape."""

    def __init__(self, layers, shape, bias=True):
        self.shape, self.bias = tuple(shape), bias
        self.layers = [layer if isinstance(layer, tuple) else (layer,) for layer in layers]

    def __repr__(self):
        return f"Chain({self.layers}, {self.shape}, bias={self.bias})"

    def symbol(self):
        """The symbol's JSON, as MXNet writes it."""
        nodes = [{"op": "null", "name": "data", "inputs": []}]

        def variable(name):
            nodes.append({"op": "null", "name": name, "inputs": []})
            return [len(nodes) - 1, 0, 0]

        def node(op, name, inputs, **attributes):
            values = {key: str(value) for key, value in attributes.items()}
            nodes.append({"op": op, "name": name, "attrs": values, "inputs": inputs})
            return [len(nodes) - 1, 0, 0]

        last, flat = [0, 0, 0], len(self.shape) == 1
        for i, (kind, *sizes) in enumerate(self.layers):
            name = f"{kind}{i}"
            if kind == "conv":
                filters, side = sizes
                inputs = [last, variable(name + "_weight")]
                last = node("New", name, inputs, kernel=(side, side), num_filter=filters)
            elif kind == "dense":
                if not flat:
                    last, flat = node("Flatten", f"flatten{i}", [last]), True
                inputs = [last, variable(name + "_weight")] + ([variable(name + "_bias")] if self.bias else [])
                last = node("FullyConnected", name, inputs, num_hidden=sizes[0], no_bias=not self.bias)
            elif kind == "tanh":
                last = node("Activation", name, [last], act_type="tanh")
            elif kind == "pool":
                last = node("Pooling", name, [last], kernel=(2, 2), stride=(2, 2), pool_type="max")
            else:
                if not flat:
                    last, flat = node("Flatten", f"flatten{i}", [last]), True
                last = node("softmax", name, [last], axis=-1)
        arguments = [i for i, each in enumerate(nodes) if each["op"] == "null"]
        return json.dumps({"nodes": nodes, "arg_nodes": arguments, "heads": [last], "attrs": {}})

    def sizes(self):
        """Shapes of the tensors in front of each layer and behind the last."""
        shapes = [self.shape]
        for kind, *sizes in self.layers:
            last = shapes[-1]
            if kind == "conv":
                last = (sizes[0], last[1] - sizes[1] + 1, last[2] - sizes[1] + 1)
            elif kind == "dense":
                last = (sizes[0],)
            elif kind == "pool":
                last = (last[0], last[1] // 2, last[2] // 2)
            shapes.append(last)
        return shapes

    def weights(self, seed=0, pixels=True):
        """Random weights of a size that keeps tanh's arguments near 1; `pixels`: the data is 0..255."""
        rng, found, first = np.random.default_rng(seed), {}, True
        for i, ((kind, *sizes), shape) in enumerate(zip(self.layers, self.sizes())):
            inputs = int(np.prod(shape)) if kind == "dense" else shape[0] * sizes[1] ** 2 if kind == "conv" else 0
            if not inputs:
                continue
            scale = (1 / 100 if first and pixels else 1.5) / np.sqrt(inputs)
            side = shape if kind == "dense" else (shape[0], sizes[1], sizes[1])
            values = (rng.standard_normal((sizes[0], int(np.prod(side)))) * scale).astype(np.float32)
            found[f"{kind}{i}_weight"] = values.reshape(sizes[0], *(side if kind == "conv" else (-1,))).astype(
                np.float32
            )
            if kind == "dense" and self.bias:
                found[f"{kind}{i}_bias"] = (rng.standard_normal(sizes[0]) * 0.1).astype(np.float32)
            first = False
        return found

    def images(self, n, kind="uint8", seed=1):
        """Random data: "uint8", "pixels" (0..255 as float32) or "reals" (-1..1)."""
        rng = np.random.default_rng(seed)
        if kind == "reals":
            return rng.uniform(-1, 1, (n, *self.shape)).astype(np.float32)
        return rng.integers(0, 256, (n, *self.shape)).astype(np.uint8 if kind == "uint8" else np.float32)

    def run(self, torch, x, weights):
        """The chain by PyTorch, in the type and on the device of x (a tensor)."""
        for i, (kind, *_) in enumerate(self.layers):
            w = weights.get(f"{kind}{i}_weight")
            w = None if w is None else torch.as_tensor(w).to(x)
            if kind == "conv":
                x = torch.nn.functional.conv2d(x, w)
            elif kind == "dense":
                b = weights.get(f"{kind}{i}_bias")
                x = torch.nn.functional.linear(x.flatten(1), w, None if b is None else torch.as_tensor(b).to(x))
            elif kind == "tanh":
                x = torch.tanh(x)
            elif kind == "pool":
                x = torch.nn.functional.max_pool2d(x, 2)
            else:
                x = torch.softmax(x.flatten(1), 1)
        return x.flatten(1)

    def reference(self, torch, images, weights):
        """The chain in float64 on the device, a NumPy array."""
        with torch.backends.cudnn.flags(enabled=False):
            return self.run(torch, torch.as_tensor(images).cuda().double(), weights).cpu().numpy()

    def net(self, weights, precision="float32", backend="gpu"):
        """The fused network."""
        return nets.Net(self.symbol(), weights, self.shape, backend, precision=precision)


def course(name, logits=False):
    """A course network; with `logits` without its softmax."""
    layers, shape = COURSE[name]
    return Chain(layers[:-1] if logits else layers, shape)


def error(y, want):
    """Largest error over the range of what is wanted; infinite where y holds NaN."""
    worst = np.abs(y.astype(np.float64) - want)
    return float(np.where(np.isnan(worst), np.inf, worst).max() / max(want.max() - want.min(), 1e-300))


def c_nodes(chain):
    """The chain's nodes as the C API takes them, and what must live as long."""
    return nets._c_nodes(json.loads(chain.symbol())["nodes"])


if "FASHION_OPS_LIBRARY" in os.environ:
    operators.library_path = lambda: Path(os.environ["FASHION_OPS_LIBRARY"]).resolve()
