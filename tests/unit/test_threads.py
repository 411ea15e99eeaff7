"""`infer` from several threads and in forked children. Each test runs a new process, because first calls matter."""

import json
import os
import subprocess
import sys
import textwrap

import profiles
import pytest

_OPTIONS = "n=20, data='synthetic', backend='cpu'"
# call() returns what must not depend on other calls that run at the same time.
_CHECK = """
from fashion_infer import infer
import sys, threading, os, json, time

MODELS = ["ece408-high", "sp2018-ece408", "baseline"]

def call(model, mode, threads=2):
    r = infer(model=model, n=20, data="synthetic", backend="cpu", mode=mode, threads=threads)
    return dict(model=model, mode=mode, correctness=r.correctness, threads=r.threads,
                predictions=r.predictions.tolist(),
                layers=[[l.name, l.kernel, len(l.log[0]), sum(t.shape[0] for t in l.log[0])] for l in r.layers])
"""


def program(body, timeout=120):
    code = _CHECK + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def alone():
    """The result of each call when nothing else runs, by (model, mode)."""
    said = program("print(json.dumps([call(m, mode) for m in MODELS for mode in ('fused', 'operator')]))")
    return {(one["model"], one["mode"]): one for one in said}


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(profiles.pick(1, 10)))
def test_first_calls_from_several_threads(turn, alone):
    turns = profiles.pick(1, 3)
    said = program(
        f"""
        count, said = 8, []
        barrier = threading.Barrier(count)
        def work(i):
            barrier.wait()
            try:
                for turn in range({turns}):
                    n = i + turn
                    said.append(call(MODELS[n % 3], ("fused", "operator")[n // 3 % 2], 1 + i % 2))
            except BaseException as error:
                said.append(repr(error))
        workers = [threading.Thread(target=work, args=(i,)) for i in range(count)]
        [w.start() for w in workers]; [w.join() for w in workers]
        print(json.dumps(said))
        """
    )
    assert len(said) == 8 * turns
    for one in said:
        assert isinstance(one, dict), one
        wanted = alone[one["model"], one["mode"]]
        assert {**one, "threads": 2} == {**wanted, "threads": 2}
    assert {one["threads"] for one in said} == {1, 2}


@pytest.mark.parametrize("turn", range(profiles.pick(1, 10)))
def test_one_predictor_in_several_threads(turn):
    said = program(
        """
        from fashion_infer import request
        from fashion_infer.inference import model
        from fashion_infer.inference.predictor import Predictor
        from fashion_infer.data import dataset
        loaded = model.load(request.Request())
        predictor = Predictor(loaded.checkpoint, batch_size=5)
        images = dataset.load(20, source="synthetic").images
        barrier, said = threading.Barrier(4), []
        def work():
            barrier.wait()
            for _ in range(5):
                scores, times = predictor.predict(images)
                said.append([scores.argmax(1).tolist(), [len(t.log[0]) for t in times if t.custom]])
        workers = [threading.Thread(target=work) for _ in range(4)]
        [w.start() for w in workers]; [w.join() for w in workers]
        print(json.dumps(said))
        """
    )
    assert len(said) == 20 and all(one == said[0] for one in said) and said[0][1] == [4]


@pytest.mark.slow
@pytest.mark.parametrize("loaded", profiles.drawn([True, False], 1))
def test_children_of_a_parent_with_threads(loaded, alone):
    said = program(
        f"""
        count = {profiles.pick(2, 40)}
        if {loaded}:
            call("ece408-high", "fused")
        going = True
        def work():
            while going:
                call("ece408-high", "operator")
        workers = [threading.Thread(target=work, daemon=True) for _ in range(2)]
        [w.start() for w in workers]
        ended = []
        for i in range(count):
            time.sleep(0.01 * i)
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(write, json.dumps([call("ece408-high", m) for m in ("fused", "operator")]).encode())
                os._exit(0)
            os.close(write)
            deadline = time.monotonic() + 60
            while not os.waitpid(child, os.WNOHANG)[0]:
                if time.monotonic() > deadline:
                    os.kill(child, 9)
                    os.waitpid(child, 0)
                    break
                time.sleep(0.01)
            with os.fdopen(read) as stream:
                text = stream.read()
            ended.append(json.loads(text) if text else None)
        going = False
        [w.join() for w in workers]
        print(json.dumps(ended))
        """,
        timeout=600,
    )
    for results in said:
        assert results == [alone["ece408-high", "fused"], alone["ece408-high", "operator"]]


AFFINITY = """
import os, numpy as np
from fashion_infer.library import bindings, kernels
os.sched_setaffinity(0, {cores})
bindings.set_threads(2)
before = set(os.listdir("/proc/self/task"))
kernels.convolve(np.ones((40, 8, 28, 28), np.float32), np.ones((16, 8, 5, 5), np.float32))
helpers = set(os.listdir("/proc/self/task")) - before
print(len(helpers), *(sorted(os.sched_getaffinity(int(helper))) for helper in helpers))
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_the_affinity_of_helper_threads():
    both = sorted(os.sched_getaffinity(0))[:2]
    for cores, wanted in ((both, [both[:1], both[1:]]), (both[:1], [both[:1]])):
        done = subprocess.run([sys.executable, "-c", AFFINITY.format(cores=set(cores))], capture_output=True, text=True)
        count, mask = done.stdout.split(" ", 1)
        assert int(count) == 1 and json.loads(mask) in wanted, done.stdout + done.stderr
