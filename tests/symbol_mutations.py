"""Runs the checks and both modes on randomly damaged symbols (see `mutated_symbols`):

    python tests/symbol_mutations.py --count 100000 --seed 1

The tries run in children that have already loaded MXNet, fifty tries per child. If a child ends by a signal, or a try
raises an exception that is not one of the package's own, the symbol is saved in the folder of --finds, and the exit
code is 1.
"""

import argparse
import os
import random
import select
import signal
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from mutated_symbols import SHAPE, symbols

from fashion_infer.graph import operators, symbol

_PER_CHILD, _SECONDS = 50, 300


def attempt(text, mode, generous):
    """Run a symbol completely; return "ran", or "refused" if the package raises one of its own errors.

    Other exceptions are passed on. With `generous`, every weight gets the shape that MXNet infers, so that more changed
    networks can run.
    """
    from fashion_infer import pipeline
    from fashion_infer._mxnet import bound
    from fashion_infer.checkpoints.checkpoint import Checkpoint, check_size
    from fashion_infer.errors import FashionInferError
    from fashion_infer.graph import input_size
    from fashion_infer.inference import predictor

    class Generous(bound.BoundGraph):
        def _fit(self, weights):
            shapes = {key: shape for key, shape in self._infer_shapes(1).items() if key != self._data}
            try:
                check_size(shapes)
            except ValueError as error:
                raise bound.CheckpointError(str(error)) from None
            labels = [key for key in shapes if self._graph["nodes"][int(key[4:])]["name"].endswith("label")]
            return {key: self._mx.nd.ones(shape) for key, shape in shapes.items() if key not in labels}

    try:
        graph = symbol.parse(text, "it")
        operators.check(graph, "it")
        weights = WEIGHTS
        size = SHAPE[1] if generous else input_size.infer(graph, weights, [SHAPE[1]])
        predictor.BoundGraph = Generous if generous else bound.BoundGraph
        ready = predictor.Predictor(Checkpoint(text, weights, {}), (1, size, size), mode=mode)
        scores, times = ready.predict(np.full((2, 1, size, size), 9, np.uint8))
        pipeline.check_scores(scores)
        assert scores.ndim == 2 and len(scores) == 2 and times, (scores.shape, times)
        return "ran"
    except FashionInferError as error:
        assert "\n" not in str(error) and len(str(error)) < 1000, str(error)
        return "refused"


def _weights():
    shapes = {"new0_weight": (4, 1, 3, 3), "convolution0_weight": (4, 1, 3, 3), "fullyconnected0_weight": (6, 144)}
    shapes.update(fullyconnected0_bias=(6,), fullyconnected1_weight=(3, 6), fullyconnected1_bias=(3,))
    return {name: np.full(shape, 0.01, np.float32) for name, shape in shapes.items()}


WEIGHTS = _weights()


def _child(tries, pipe):
    """Run tries in both modes. Write "b" to the pipe before each run; after it ".", "r" (refused) or "x" (raised)."""
    for index, text in tries:
        for mode in ("operator", "fused"):
            os.write(pipe, b"b")
            try:
                os.write(pipe, b"." if attempt(text, mode, index % 3 > 0) == "ran" else b"r")
            except BaseException:
                os.write(pipe, b"x")
                traceback.print_exc()
    os._exit(0)


def _run(tries):
    """Run tries in a child process; return what the child wrote to the pipe, and its exit status."""
    said, to_say = os.pipe()
    child = os.fork()
    if not child:
        os.close(said)
        _child(tries, to_say)
    os.close(to_say)
    heard = b""
    while True:
        if not select.select([said], [], [], _SECONDS)[0]:
            os.kill(child, signal.SIGKILL)
        more = os.read(said, 65536)
        if not more:
            break
        heard += more
    os.close(said)
    _, status = os.waitpid(child, 0)
    return heard.decode(), status


def run(count, seed, finds):
    """Try `count` symbols; return how many tries ran, how many were refused, and the finds as (kind, text)."""
    from fashion_infer import _mxnet
    from fashion_infer._mxnet import plugin

    plugin.load_operators()
    mx = _mxnet.load()
    stream = symbols(seed, every_operator(mx))
    ran = refused = 0
    found = []
    waiting = []
    for index in range(count):
        waiting.append((index, next(stream)))
        if len(waiting) < _PER_CHILD and index < count - 1:
            continue
        while waiting:
            heard, status = _run(waiting)
            ends = heard.replace("b", "")
            ran, refused = ran + ends.count("."), refused + ends.count("r")
            for place, letter in enumerate(ends):
                if letter == "x":
                    found.append(("exception", waiting[place // 2][1]))
            if not status:
                break
            place = len(ends) // 2
            found.append((f"status {status} in mode {'of'[len(ends) % 2]}", waiting[place][1]))
            waiting = waiting[place + 1 :]
        waiting = []
        if finds and found:
            for number, (kind, text) in enumerate(found):
                Path(finds).mkdir(parents=True, exist_ok=True)
                (Path(finds) / f"{seed}-{number}.txt").write_text(f"{kind}\n{text}\n", encoding="utf-8")
        if index and index % 5000 < _PER_CHILD:
            print(index + 1, "tried:", ran, "ran,", refused, "refused,", len(found), "finds", flush=True)
    return ran, refused, found


def every_operator(mx):
    """Return the names of all operators of MXNet and of our library."""
    import ctypes

    size, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    mx.base.check_call(mx.base._LIB.MXListAllOpNames(ctypes.byref(size), ctypes.byref(names)))
    return [names[index].decode() for index in range(size.value)]


def main():
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--finds", metavar="FOLDER")
    options = parser.parse_args()
    seed = random.randrange(2**31) if options.seed is None else options.seed
    ran, refused, found = run(options.count, seed, options.finds)
    print(f"seed {seed}: {options.count} symbols in two modes: {ran} ran, {refused} were refused, {len(found)} finds")
    for kind, text in found[:10]:
        print(kind, text[:20000])
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
