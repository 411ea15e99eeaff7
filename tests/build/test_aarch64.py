"""The library for 64-bit Arm: cross-compiled, run by QEMU, and compared with NumPy's float64 results (bounds.py)."""

import os
import shutil
import struct
import subprocess

import bounds
import chains
import inputs
import numpy as np
import profiles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sanitizers import OPS, tool

from fashion_infer.graph import symbol as symbols
from fashion_infer.graph.layers import Convolution, Dense

EMULATORS = ("qemu-aarch64", "qemu-aarch64-static")
SYSTEM = "/usr/aarch64-linux-gnu"  # the folder in which Debian's cross compiler has its libraries

all_only = pytest.mark.skipif(not profiles.pick(False, True), reason="minutes in an emulator: part of make test-all")
pytestmark = [all_only, pytest.mark.slow]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A function that returns the command line that runs one of the test programs under QEMU."""
    emulator = next(filter(None, map(shutil.which, EMULATORS)), None)
    cmake, ninja = tool("cmake"), tool("ninja")
    for found, name in ((shutil.which("aarch64-linux-gnu-g++"), "g++-aarch64-linux-gnu"), (emulator, "qemu-user")):
        if not found:
            pytest.skip(f"{name} is not installed (Debian's package of that name)")
    if not (cmake and ninja):
        pytest.skip("cmake or ninja is not installed")
    folder = tmp_path_factory.mktemp("aarch64")
    configure = [cmake, "-S", OPS, "--preset", "aarch64", "-B", folder, f"-DCMAKE_MAKE_PROGRAM={ninja}", "-DMXNET_DIR="]
    for command in (configure, [cmake, "--build", folder]):
        done = subprocess.run(command, cwd=OPS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0 and "warning:" not in done.stdout, done.stdout
    return lambda name: [emulator, "-L", SYSTEM, str(folder / name)]


@pytest.fixture(scope="module", params=["neon", "generic"])
def library(request, program):
    emulated = Emulated(program("run_cases"), request.param)
    assert emulated.isa() == request.param
    yield emulated
    emulated.close()


@pytest.mark.parametrize("isa", ["neon", "generic"])
def test_networks_from_several_threads(program, isa):
    done = subprocess.run(
        program("drive_networks"), env={**os.environ, "FASHION_OPS_ISA": isa}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_convolutions(library):
    @given(
        st.integers(1, 12),
        st.integers(1, 9),
        st.integers(1, 9),
        *[st.sampled_from(sorted(inputs.KINDS))] * 2,
        st.integers(0, 2**32 - 1),
    )
    @settings(max_examples=200)
    def check(c, m, k, kind, weights, seed):
        rng = np.random.default_rng(seed)
        h, w = k + rng.integers(0, 20, 2)
        x, weight = inputs.draw(kind, rng, (2, c, h, w)), inputs.draw(weights, rng, (m, c, k, k)).astype(np.float32)
        if not rng.integers(5):
            x = inputs.with_specials(x, rng)
        wanted = bounds.forward([Convolution(m, k)], [weight], x)
        for kernel in ("naive", "auto"):
            assert bounds.excess(library.convolve(x, weight, kernel), wanted) <= 1

    check()


@pytest.mark.parametrize("chain", [chains.course("fa2017"), chains.Chain([Dense(7)], (1, 38, 48)), None], ids=str)
def test_networks(library, chain):
    """Results are within their error bound; an image's scores have the same bits in four batches and thread counts."""

    @given(st.just(chain) if chain else chains.chains(), st.integers(1, 40), st.integers(0, 2**32 - 1))
    @settings(max_examples=3 if chain else 200)
    def check(chain, n, seed):
        rng = np.random.default_rng(seed)
        kind = ["uint8", "normal"][rng.integers(2)]
        x, weights = chain.items(n, kind, seed), chain.weights(seed, kind != "normal")
        halves = x[: n // 2 + 1], x[n // 2 :]
        whole, first, second, alone = library.forward(
            chain, weights, [(3, x), (1, halves[0]), (16, halves[1]), (2, x[-1:])]
        )
        assert bounds.excess(whole, bounds.forward(chain.layers, weights, x)) <= 1
        np.testing.assert_array_equal(first, whole[: n // 2 + 1])
        np.testing.assert_array_equal(second, whole[n // 2 :])
        np.testing.assert_array_equal(alone, whole[-1:])

    check()


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
