"""Sends convolutions and networks over pipes to tests/build/run_cases.cpp, which runs under an emulator."""

import os
import struct
import subprocess

import numpy as np

from fashion_infer.graph import symbol as symbols


class Emulated:
    """A process that computes convolutions and networks with the library of another architecture.

    `command` starts run_cases; `isa` is the best instruction set that the library may use.
    """

    def __init__(self, command, isa):
        environment = {**os.environ, "FASHION_OPS_ISA": isa}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._process = subprocess.Popen([str(word) for word in command], env=environment, **pipes)

    def close(self):
        self._process.communicate(timeout=60)

    def isa(self):
        """Return the instruction set that the library uses."""
        self._send("isa")
        return bytes(self._answer().astype(np.uint8)).decode()

    def convolve(self, x, weight, kernel="auto"):
        """Compute a convolution, as `fashion_infer.library.kernels.convolve` does."""
        (n, c, h, w), (m, _, k, _) = x.shape, weight.shape
        self._send("convolution", kernel, n, c, h, w, m, k, int(x.dtype == np.uint8), x.view(np.int8), weight)
        return self._answer().reshape(n, m, h - k + 1, w - k + 1)

    def forward(self, chain, weights, batches):
        """Return the scores of one fused network: an array (images, classes) for each (threads, items) in `batches`."""
        nodes = symbols.parse(chain.symbol(), "the network")["nodes"]
        self._send("network", np.array(chain.shape, np.int64), len(nodes))
        for node in nodes:
            attributes, sources = symbols.attributes(node), np.array([entry[0] for entry in node["inputs"]], np.int32)
            words = [*attributes, *attributes.values()]
            self._send(node["op"], node["name"], len(words), *words, sources)
        names = [node["name"] for node in nodes if node["op"] == "null"]
        self._send(len(names), *(weights.get(name, np.zeros(0, np.float32)) for name in names), len(batches))
        scores = []
        for threads, items in batches:
            self._send(threads, len(items), int(items.dtype == np.uint8), items.view(np.int8))
            scores.append(self._answer().reshape(len(items), -1))
        return scores

    def _send(self, *things):
        for thing in things:
            if isinstance(thing, int):
                self._process.stdin.write(struct.pack("<q", thing))
                continue
            values = np.frombuffer(thing.encode(), np.int8) if isinstance(thing, str) else np.ascontiguousarray(thing)
            self._process.stdin.write(struct.pack("<q", values.size) + values.tobytes())
        self._process.stdin.flush()

    def _answer(self):
        status, size = struct.unpack("<2q", self._read(16))
        if status:
            raise RuntimeError(self._read(size).decode())
        return np.frombuffer(self._read(4 * size), np.float32)

    def _read(self, size):
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise RuntimeError(f"the program ended: {self._process.stderr.read().decode()}")
        return data
