"""Malicious checkpoints, written when a test needs them.

`make` writes all of them into a folder, each under its name in `SYMBOLS`, `PARAMS` or `hostile_hdf5.WEIGHTS`. The
tables in tests/hostile use these names.
"""

import json
import struct
from pathlib import Path

import hostile_hdf5
import numpy as np

from fashion_infer.checkpoints import checkpoint
from fashion_infer.graph import symbol
from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Softmax, Tanh, walk

LAYERS = [Convolution(4, 3), Tanh(), MaxPool(), Flatten(), Dense(6), Tanh(), Dense(10), Softmax()]
SHAPE = (1, 28, 28)


def network(operator="custom", gain=1.0, seed=0, layers=LAYERS):
    """Return a checkpoint of a small network for images of 28x28 pixels."""
    prefix = {"custom": "new", "builtin": "convolution"}[operator]
    rng, weights = np.random.default_rng(seed), {}
    for step in walk(layers, SHAPE, prefix):
        for name, shape in step.parameters.items():
            weights[name] = (gain * rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
    weights[f"{prefix}0_weight"] /= 100  # pixels are up to 255
    return checkpoint.Checkpoint(symbol.build(layers, SHAPE, operator), weights, {})


def write_pair(prefix, found):
    """Write MXNet's two files, symbol and weights, without using MXNet; return their prefix."""
    Path(f"{prefix}-symbol.json").write_text(found.symbol, encoding="utf-8")
    Path(f"{prefix}-0001.params").write_bytes(params({f"arg:{name}": array for name, array in found.weights.items()}))
    return str(prefix)


def params(arrays):
    """Return the bytes of a .params file, as MXNet 1.9.1 writes it."""
    codes = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6}
    parts = [struct.pack("<QQQ", 0x112, 0, len(arrays))]
    for array in arrays.values():
        parts.append(struct.pack("<Iii", 0xF993FAC9, 0, array.ndim) + struct.pack(f"<{array.ndim}q", *array.shape))
        parts.append(struct.pack("<iii", 1, 0, codes[str(array.dtype)]) + array.tobytes())
    parts.append(struct.pack("<Q", len(arrays)))
    parts += [struct.pack("<Q", len(name.encode())) + name.encode() for name in arrays]
    return b"".join(parts)


def changed(found, change):
    graph = json.loads(found.symbol)
    change(graph)
    return found._replace(symbol=json.dumps(graph))


def node(graph, op):
    return next(n for n in graph["nodes"] if n["op"] == op)


def _attribute(op, **values):
    return lambda graph: node(graph, op)["attrs"].update(values)


def _operator(op, name, **attributes):
    return lambda graph: node(graph, op).update(op=name, attrs=attributes)


# Name: (change to a valid network's symbol, words of the error message).
SYMBOLS = {
    "native": (_operator("Flatten", "_Native", info="0x41414141"), "has the operator _Native"),
    "ndarray": (_operator("Flatten", "_NDArray", info="0x41414141"), "has the operator _NDArray"),
    "backward": (_operator("Flatten", "_backward_Convolution"), "has the operator _backward_Convolution"),
    "subgraph": (_operator("Flatten", "_fashion_infer_network"), "has the operator _fashion_infer_network"),
    "onednn": (_operator("Flatten", "_sg_mkldnn_conv"), "has the operator _sg_mkldnn_conv"),
    "custom": (_operator("Flatten", "Custom", op_type="x"), "has the operator Custom"),
    "no-filters": (lambda g: node(g, "New")["attrs"].pop("num_filter"), "lacks its num_filter"),
    "half-a-filter": (_attribute("New", num_filter="5.0"), "num_filter=5.0"),
    "negative-units": (_attribute("FullyConnected", num_hidden="-1"), "num_hidden=-1"),
    "huge-units": (_attribute("FullyConnected", num_hidden="999999999"), "num_hidden=999999999"),
    "no-stride": (_attribute("Pooling", stride="(0, 0)"), "stride=(0, 0)"),
    "huge-kernel": (_attribute("Pooling", kernel="(1000000, 1000000)"), "kernel=(1000000, 1000000)"),
    "wide-pad": (_attribute("Pooling", pad="(2, 2)"), "as large as its kernel"),
    "no-groups": (
        _operator("New", "Convolution", kernel="(3, 3)", num_filter="4", num_group="0", no_bias="1"),
        "num_group=0",
    ),
    "other-layout": (_attribute("New", layout="NHWC"), "layout=NHWC"),
    "escape": (_attribute("Activation", act_type="\x1b[31m"), r"act_type=\x1b[31m"),
    "one-input": (lambda g: node(g, "New")["inputs"].pop(), "has 1 inputs"),
    "rank-4": (lambda g: g.update(heads=[[4, 0, 0]]), "must be (1, classes)"),
    "cycle": (lambda g: node(g, "Flatten")["inputs"][0].__setitem__(0, 9), "does not come before it"),
    "outside": (lambda g: g.update(heads=[[99, 0, 0]]), "is none of its nodes"),
    "truth": (lambda g: node(g, "Flatten")["inputs"][0].__setitem__(0, True), "damaged input"),
    "newline": (lambda g: node(g, "Flatten").update(name="a\nb"), "control characters"),
    "long-name": (lambda g: node(g, "Flatten").update(name="x" * 5000), "a name of 5000 characters"),
    "graphs-within": (lambda g: node(g, "Flatten").update(subgraphs=[{}]), "has subgraphs"),
    "two-of-a-name": (lambda g: g["nodes"][1].update(name="data"), "two variables are called 'data'"),
    "no-data": (lambda g: g["nodes"][0].update(name="pictures"), "no input called 'data'"),
    "many": (lambda g: g["nodes"].extend([g["nodes"][0]] * 3000), "more than 2000 nodes"),
}
_HEAD = struct.pack("<QQQ", 0x112, 0, 1)
# Name: (content of the weight file of a valid symbol, words of the error message).
PARAMS = {
    "sparse": (_HEAD + struct.pack("<Iiiq", 0xF993FAC9, 1, 1, 5), "sparse"),
    "claims-an-exabyte": (_HEAD + struct.pack("<Iiiqqiii", 0xF993FAC9, 0, 2, 2**31, 2**31, 1, 0, 0), "ends too early"),
    "claims-arrays": (struct.pack("<QQQ", 0x112, 0, 2**40), "arrays or names"),
    "claims-a-name": (struct.pack("<QQQQQ", 0x112, 0, 0, 1, 2**50), "ends too early"),
    "not-mxnets": (b"PK\x03\x04" * 100, "does not begin as MXNet's files do"),
    "no-bytes": (b"", "ends too early"),
}


def make(folder):
    """Create all malicious checkpoints in a folder.

    Return a dict from values for `--checkpoint`, relative to the folder, to words of the error message. Names have only
    lower-case letters, digits and "-". `good`, which is not in the dict, is a network that runs.
    """
    words = {}
    write_pair(Path(folder) / "good", network())
    for name, (change, why) in SYMBOLS.items():
        write_pair(Path(folder) / f"symbol-{name}", changed(network(), change))
        words[f"symbol-{name}"] = why
    for name, (content, why) in PARAMS.items():
        write_pair(Path(folder) / f"params-{name}", network())
        (Path(folder) / f"params-{name}-0001.params").write_bytes(content)
        words[f"params-{name}"] = why
    for name, (weight, why) in hostile_hdf5.WEIGHTS.items():
        hostile_hdf5.small(Path(folder) / f"hdf5-{name}", weight)
        words[f"hdf5-{name}"] = why
    hostile_hdf5.small(Path(folder) / "hdf5-edition-list", edition=["fa2017"])
    hostile_hdf5.small(Path(folder) / "hdf5-edition-unknown", edition="fa1999")
    words.update({"hdf5-edition-list": "which is not text", "hdf5-edition-unknown": "is unknown"})
    large = {name: np.full_like(array, 3e38) for name, array in network().weights.items()}
    write_pair(Path(folder) / "overflow", network()._replace(weights=large))
    return words
