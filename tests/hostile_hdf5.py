"""Malicious HDF5 files, written when a test needs them."""

import os

import h5py
import numpy as np

from fashion_infer.checkpoints import hdf5
from fashion_infer.graph import symbol
from fashion_infer.graph.layers import Dense, Softmax

TEXT = symbol.build([Dense(10), Softmax()], (1, 28, 28))
WEIGHT, BIAS = "fullyconnected0_weight", "fullyconnected0_bias"


def small(path, weight=None, **facts):
    """Write a complete checkpoint of one dense layer; return its path as text.

    `weight` is an array, or a function that writes it into the group of weights. `facts` are further attributes of the
    file.
    """
    with h5py.File(path, "w") as file:
        file.attrs["format"] = hdf5.FORMAT
        for key, value in facts.items():
            file.attrs[key] = value
        file["symbol"] = np.bytes_(TEXT.encode())
        weights = file.create_group("weights")
        weights[BIAS] = np.zeros(10, np.float32)
        if callable(weight):
            weight(weights)
        else:
            weights[WEIGHT] = np.zeros((10, 784), np.float32) if weight is None else weight
    return str(path)


def _soft(weights):
    weights[WEIGHT] = h5py.SoftLink(f"/weights/{BIAS}")


def _external_link(weights):
    weights[WEIGHT] = h5py.ExternalLink("/etc/hostname", "/x")


def _raw_outside(weights):
    weights.create_dataset(WEIGHT, (10, 784), np.float32, external=[("/etc/passwd", 0, 10 * 784 * 4)])


def _raw_of_a_fifo(weights):
    fifo = f"{weights.file.filename}.fifo"
    if not os.path.exists(fifo):
        os.mkfifo(fifo)
    weights.create_dataset(WEIGHT, (10, 784), np.float32, external=[(fifo, 0, 10 * 784 * 4)])


def _virtual(weights):
    layout = h5py.VirtualLayout((10, 784), np.float32)
    layout[:] = h5py.VirtualSource("other.h5", "x", (10, 784))
    weights.create_virtual_dataset(WEIGHT, layout)


def _huge(weights):
    weights.create_dataset(WEIGHT, (400_000, 7200), np.int8, chunks=(1, 7200), compression="gzip")


def _bomb(weights):
    weights.create_dataset(WEIGHT, (1 << 20, 784), np.float32, chunks=(1 << 10, 784), compression="gzip", fillvalue=1)


def _huge_chunk(weights):
    weights.create_dataset(WEIGHT, (10, 784), np.float32, chunks=(1 << 20, 784), maxshape=(None, None))


def _lzf(weights):
    weights.create_dataset(WEIGHT, (10, 784), np.float32, data=np.zeros((10, 784)), compression="lzf")


def _group(weights):
    weights.create_group(WEIGHT)


def _texts(weights):
    weights[WEIGHT] = np.array([b"x"] * 7840).reshape(10, 784).astype(object)


def _references(weights):
    weights.create_dataset(WEIGHT, (10, 784), h5py.ref_dtype)


def _compound(weights):
    weights[WEIGHT] = np.zeros((10, 784), [("a", "f4"), ("b", "f4")])


def _scalar(weights):
    weights[WEIGHT] = np.float32(3)


def _int8_alone(weights):
    weights[WEIGHT] = np.zeros((10, 784), np.int8)


# Name: (the weight, or a function that writes it; words of the error message).
WEIGHTS = {
    "soft-link": (_soft, "is a link"),
    "external-link": (_external_link, "is a link"),
    "raw-data-of-a-file": (_raw_outside, "in another file"),
    "raw-data-of-a-fifo": (_raw_of_a_fifo, "in another file"),
    "virtual": (_virtual, "other datasets"),
    "claims-11-gb": (_huge, "take 10986 MiB"),
    "bomb": (_bomb, "take 3136 MiB"),
    "huge-chunk": (_huge_chunk, "take 3136 MiB"),
    "filter-of-a-library": (_lzf, "compressed by a filter other than gzip"),
    "group": (_group, "is not a dataset"),
    "texts": (_texts, "unsupported type object"),
    "references": (_references, "unsupported type object"),
    "compound": (_compound, "unsupported type"),
    "scalar": (_scalar, "single number"),
    "int8-without-a-scale": (_int8_alone, "scale of weight"),
}


def endless(path):
    """Write a file that HDF5 in h5py 3.16 never finishes reading; return its path. Fuzzing found the nine inserted
    bytes.
    """
    with open(small(path), "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(content[:2105] + bytes.fromhex("ff0100000002020166") + content[2105:])
    return str(path)
