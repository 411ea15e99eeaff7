"""Runs randomly damaged symbols in both modes: python tests/symbol_mutations.py COUNT SEED FILE

Each symbol is in FILE while it is tried, so it is there if MXNet crashes.
"""

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from mutate import SHAPE, symbols

from fashion_infer import pipeline
from fashion_infer._mxnet import bound, load, plugin
from fashion_infer.checkpoints.checkpoint import Checkpoint, check_size
from fashion_infer.errors import FashionInferError
from fashion_infer.graph import input_size, operators, symbol
from fashion_infer.inference import predictor

SHAPES = {"new0_weight": (4, 1, 3, 3), "convolution0_weight": (4, 1, 3, 3), "fullyconnected0_weight": (6, 144)}
SHAPES.update(fullyconnected0_bias=(6,), fullyconnected1_weight=(3, 6), fullyconnected1_bias=(3,))
WEIGHTS = {name: np.full(shape, 0.01, np.float32) for name, shape in SHAPES.items()}


class Generous(bound.BoundGraph):
    """Gives each weight the shape that MXNet infers, so that more of the changed networks can run."""

    def _fit(self, weights):
        shapes = {key: shape for key, shape in self._infer_shapes(1).items() if key != self._data}
        try:
            check_size(shapes)
        except ValueError as error:
            raise bound.CheckpointError(str(error)) from None
        labels = [key for key in shapes if self._graph["nodes"][int(key[4:])]["name"].endswith("label")]
        return {key: self._mx.nd.ones(shape) for key, shape in shapes.items() if key not in labels}


def runs(text, mode, generous):
    """Return whether a symbol runs; False if the package refuses it. Other exceptions are passed on."""
    try:
        graph = symbol.parse(text, "it")
        operators.check(graph, "it")
        size = SHAPE[1] if generous else input_size.infer(graph, WEIGHTS, [SHAPE[1]])
        predictor.BoundGraph = Generous if generous else bound.BoundGraph
        ready = predictor.Predictor(Checkpoint(text, WEIGHTS, {}), (1, size, size), mode=mode)
        scores, times = ready.predict(np.full((2, 1, size, size), 9, np.uint8))
        pipeline.check_scores(scores)
    except FashionInferError as error:
        assert "\n" not in str(error) and len(str(error)) < 1000, str(error)
        return False
    assert scores.ndim == 2 and len(scores) == 2 and times, (scores.shape, times)
    return True


def every_operator(mx):
    """Return the names of all operators of MXNet and of our library."""
    import ctypes

    size, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    mx.base.check_call(mx.base._LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    return [names[index].decode() for index in range(size.value)]


def main(count, seed, file):
    plugin.load_operators()
    outcomes = []
    for index, text in enumerate(itertools.islice(symbols(seed, every_operator(load())), count)):
        Path(file).write_text(text, encoding="utf-8")
        outcomes += [runs(text, mode, index % 3 > 0) for mode in ("operator", "fused")]
    print(outcomes.count(True), outcomes.count(False))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
