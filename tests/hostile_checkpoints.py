"""Malicious checkpoints, written when a test needs them.

`make` writes all of them into a folder, under their names in the tables below. The tables in tests/hostile use these
names.
"""

import json
import os
import struct
from pathlib import Path

import h5py
import numpy as np

from fashion_infer.checkpoints import checkpoint, hdf5
from fashion_infer.graph import symbol
from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Softmax, Tanh, walk

LAYERS = [Convolution(4, 3), Tanh(), MaxPool(), Flatten(), Dense(6), Tanh(), Dense(10), Softmax()]
SHAPE = (1, 28, 28)


def network(operator="custom", seed=0, layers=LAYERS, shape=SHAPE):
    """Return a checkpoint of a network with random weights, so small that tanh does not saturate."""
    prefix = {"custom": "new", "builtin": "convolution"}[operator]
    rng, weights = np.random.default_rng(seed), {}
    for step in walk(layers, shape, prefix):
        for name, size in step.parameters.items():
            weights[name] = (rng.standard_normal(size) / np.sqrt(np.prod(size[1:]))).astype(np.float32)
    weights[f"{prefix}0_weight"] /= 100  # pixels are up to 255
    return checkpoint.Checkpoint(symbol.build(layers, shape, operator), weights, {})


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
    """Return the checkpoint with another symbol: the text `change`, or its graph after the function `change`."""
    if isinstance(change, str):
        return found._replace(symbol=change)
    graph = json.loads(found.symbol)
    change(graph)
    return found._replace(symbol=json.dumps(graph))


def node(graph, op):
    return next(n for n in graph["nodes"] if n["op"] == op)


def _attribute(op, **values):
    return lambda graph: node(graph, op)["attrs"].update(values)


def _operator(op, name, **attributes):
    return lambda graph: node(graph, op).update(op=name, attrs=attributes)


def _convolution(**attributes):
    return _operator("New", "Convolution", **{"kernel": "(3, 3)", "num_filter": "4", "no_bias": "1", **attributes})


def _in_node(**values):
    return lambda graph: graph["nodes"][2].update(values)


def _entry(place, value):
    return lambda graph: graph["nodes"][2]["inputs"][0].__setitem__(place, value)


# Symbols by name: a change to a valid network's graph, or another text. Those of STRUCTURE are inconsistent; those of
# OPERATORS have something that the list of operators does not allow; those of SHAPES do not fit the images.
STRUCTURE = {
    "cycle": _entry(0, 9),
    "itself": _entry(0, -1),
    "truth": _entry(0, True),
    "float": _entry(0, 1.0),
    "output": _entry(1, 900),
    "entry-of-four": lambda g: g["nodes"][2]["inputs"].__setitem__(0, [0, 0, 0, 0]),
    "entry-of-none": lambda g: g["nodes"][2]["inputs"].__setitem__(0, 3),
    "inputs-no-list": _in_node(inputs={}),
    "attributes-no-dict": _in_node(attrs=[]),
    "attribute-no-text": _in_node(attrs={"kernel": 5}),
    "long-attribute": _in_node(attrs={"kernel": "1" * 5000}),
    "control-dependencies": _in_node(control_deps=[0]),
    "graphs-within": _in_node(subgraphs=[{}]),
    "newline": _in_node(name="a\nb"),
    "terminal": _in_node(name="\x1b[2J"),
    "long-name": _in_node(name="x" * 5000),
    "name-no-text": _in_node(name=7),
    "no-name": lambda g: g["nodes"][2].pop("name"),
    "no-node": lambda g: g["nodes"].__setitem__(2, None),
    "no-nodes": lambda g: g.update(nodes=[]),
    "many": lambda g: g["nodes"].extend([g["nodes"][0]] * 3000),
    "two-of-a-name": lambda g: g["nodes"][1].update(name="data"),
    "variable-truth": lambda g: g.update(arg_nodes=[True]),
    "variable-outside": lambda g: g.update(arg_nodes=[-1]),
    "variable-computed": lambda g: g.update(arg_nodes=[2]),
    "outside": lambda g: g.update(heads=[[99, 0, 0]]),
    "head-is-a-variable": lambda g: g.update(heads=[[0, 0, 0]]),
    "heads-no-list": lambda g: g.update(heads=5),
    "heads-empty": lambda g: g.update(heads=[]),
    "no-heads": lambda g: g.pop("heads"),
    "deep-lists": "[" * 100_000,
    "deep-objects": '{"nodes":' * 20_000,
    "list": "[1]",
    "not-json": "{",
    "long-number": '{"nodes": [' + "1" * 5000 + "]}",
    "nan": '{"nodes": [NaN]}',
    "five-megabytes": " " * (5 << 20),
}
OPERATORS = {
    "native": _operator("Flatten", "_Native", info="0x41414141"),
    "ndarray": _operator("Flatten", "_NDArray", info="0x41414141"),
    "backward": _operator("Flatten", "_backward_Convolution"),
    "subgraph": _operator("Flatten", "_fashion_infer_network"),
    "onednn": _operator("Flatten", "_sg_mkldnn_conv"),
    "custom": _operator("Flatten", "Custom", op_type="x"),
    "no-filters": lambda g: node(g, "New")["attrs"].pop("num_filter"),
    "half-a-filter": _attribute("New", num_filter="5.0"),
    "negative-filters": _attribute("New", num_filter="-4"),
    "endless-filters": _attribute("New", num_filter="99999999999999999999"),
    "kernel-of-nothing": _attribute("New", kernel="(0, 0)"),
    "kernel-of-rank-3": _attribute("New", kernel="(3, 3, 3)"),
    "new-stride": _attribute("New", stride="(2, 2)"),
    "negative-units": _attribute("FullyConnected", num_hidden="-1"),
    "arabic-units": _attribute("FullyConnected", num_hidden="\u0663"),
    "huge-units": _attribute("FullyConnected", num_hidden="999999999"),
    "no-kernel": lambda g: node(g, "Pooling")["attrs"].pop("kernel"),
    "no-stride": _attribute("Pooling", stride="(0, 0)"),
    "huge-kernel": _attribute("Pooling", kernel="(1000000, 1000000)"),
    "median": _attribute("Pooling", pool_type="median"),
    "lp-without-p": _attribute("Pooling", pool_type="lp"),
    "wide-pad": _attribute("Pooling", pad="(2, 2)"),
    "no-groups": _convolution(num_group="0"),
    "convolution-stride": _convolution(stride="(0, 0)"),
    "convolution-dilation": _convolution(dilate="(0, 1)"),
    "convolution-kernel": _convolution(kernel="(1000000, 1000000)"),
    "convolution-bias": _convolution(no_bias="maybe"),
    "convolution-colour": _convolution(colour="red"),
    "other-layout": _attribute("New", layout="NHWC"),
    "escape": _attribute("Activation", act_type="\x1b[31m"),
    "one-input": lambda g: node(g, "New")["inputs"].pop(),
    "no-input": lambda g: node(g, "Flatten").update(inputs=[]),
    "second-output": lambda g: g.update(heads=[[4, 1, 0]]),
}
SHAPES = {
    "rank-4": lambda g: g.update(heads=[[4, 0, 0]]),
    "no-data": lambda g: g["nodes"][0].update(name="pictures"),
    "gigabytes": _convolution(pad="(4096, 4096)", num_filter="16"),
}
SYMBOLS = {"structure": STRUCTURE, "operators": OPERATORS, "shapes": SHAPES}
_HEAD = struct.pack("<QQQ", 0x112, 0, 1)
# Contents of the weight file of a valid symbol, by name.
PARAMS = {
    "sparse": _HEAD + struct.pack("<Iiiq", 0xF993FAC9, 1, 1, 5),
    "claims-an-exabyte": _HEAD + struct.pack("<Iiiqqiii", 0xF993FAC9, 0, 2, 2**31, 2**31, 1, 0, 0),
    "claims-arrays": struct.pack("<QQQ", 0x112, 0, 2**40),
    "claims-a-name": struct.pack("<QQQQQ", 0x112, 0, 0, 1, 2**50),
    "not-mxnets": b"PK\x03\x04" * 100,
    "no-bytes": b"",
}


WEIGHT, BIAS = "fullyconnected0_weight", "fullyconnected0_bias"


def small_hdf5(path, weight=None, **facts):
    """Write a complete checkpoint of one dense layer; return its path as text.

    `weight` is an array, or a function that writes it into the group of weights. `facts` are further attributes of the
    file.
    """
    with h5py.File(path, "w") as file:
        file.attrs["format"] = hdf5.FORMAT
        for key, value in facts.items():
            file.attrs[key] = value
        file["symbol"] = np.bytes_(symbol.build([Dense(10), Softmax()], SHAPE).encode())
        weights = file.create_group("weights")
        weights[BIAS] = np.zeros(10, np.float32)
        if callable(weight):
            weight(weights)
        else:
            weights[WEIGHT] = np.zeros((10, 784), np.float32) if weight is None else weight
    return str(path)


def _item(value):
    return lambda weights: weights.__setitem__(WEIGHT, value)


def _dataset(*shape_and_type, **options):
    return lambda weights: weights.create_dataset(WEIGHT, *shape_and_type, **options)


def _raw_of_a_fifo(weights):
    fifo = f"{weights.file.filename}.fifo"
    if not os.path.exists(fifo):
        os.mkfifo(fifo)
    weights.create_dataset(WEIGHT, (10, 784), np.float32, external=[(fifo, 0, 10 * 784 * 4)])


def _virtual(weights):
    layout = h5py.VirtualLayout((10, 784), np.float32)
    layout[:] = h5py.VirtualSource("other.h5", "x", (10, 784))
    weights.create_virtual_dataset(WEIGHT, layout)


# Functions that write the weight, by name.
WEIGHTS = {
    "soft-link": _item(h5py.SoftLink(f"/weights/{BIAS}")),
    "external-link": _item(h5py.ExternalLink("/etc/hostname", "/x")),
    "raw-data-of-a-file": _dataset((10, 784), np.float32, external=[("/etc/passwd", 0, 10 * 784 * 4)]),
    "raw-data-of-a-fifo": _raw_of_a_fifo,
    "virtual": _virtual,
    "claims-11-gb": _dataset((400_000, 7200), np.int8, chunks=(1, 7200), compression="gzip"),
    "bomb": _dataset((1 << 20, 784), np.float32, chunks=(1 << 10, 784), compression="gzip", fillvalue=1),
    "huge-chunk": _dataset((10, 784), np.float32, chunks=(1 << 20, 784), maxshape=(None, None)),
    "filter-of-a-library": _dataset((10, 784), np.float32, data=np.zeros((10, 784)), compression="lzf"),
    "group": lambda weights: weights.create_group(WEIGHT),
    "texts": _item(np.array([b"x"] * 7840).reshape(10, 784).astype(object)),
    "references": _dataset((10, 784), h5py.ref_dtype),
    "compound": _item(np.zeros((10, 784), [("a", "f4"), ("b", "f4")])),
    "scalar": _item(np.float32(3)),
    "int8-without-a-scale": _item(np.zeros((10, 784), np.int8)),
}


EDITIONS = {"edition-list": ["fa2017"], "edition-unknown": "fa1999", "edition-number": np.float32(3)}
EDITIONS.update({"edition-bytes": b"fa2017\xff", "edition-empty": ""})


def make(folder):
    """Create all malicious checkpoints in a folder, and `good`, which is loaded."""
    write_pair(Path(folder) / "good", network())
    for name, change in {**STRUCTURE, **OPERATORS, **SHAPES}.items():
        write_pair(Path(folder) / f"symbol-{name}", changed(network(), change))
    for name, content in PARAMS.items():
        write_pair(Path(folder) / f"params-{name}", network())
        (Path(folder) / f"params-{name}-0001.params").write_bytes(content)
    for name, weight in WEIGHTS.items():
        small_hdf5(Path(folder) / f"hdf5-{name}", weight)
    for name, edition in EDITIONS.items():
        small_hdf5(Path(folder) / f"hdf5-{name}", edition=edition)
