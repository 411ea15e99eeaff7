"""Judging of GPU submissions with a fake CUDA driver, whose device memory is host memory.

The tests cover shared tensors, times of the worker, and findings. tests/gpu/test_grading_on_device.py tests a real
device.
"""

import ctypes
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import drawn

from fashion_infer.grading import marks, rubric
from fashion_infer.grading.device import lag, tensors
from fashion_infer.grading.inside import driver
from fashion_infer.grading.intake.building import BuiltSubmission
from fashion_infer.grading.referee import Machine, Referee, notes, samples, session
from fashion_infer.grading.referee.memory import place
from fashion_infer.grading.referee.tensors import NO_LAG, HostTensors, Lag
from fashion_infer.grading.sandbox import available
from fashion_infer.graph.layers import ConvolutionShape
from fashion_infer.judging.inputs import KeyedStream, Seed, random_inputs
from fashion_infer.system import compilers, installation

FAKE = Path(__file__).with_name("libcuda.c")
NEEDS = pytest.mark.skipif(
    not available().isolated or compilers.find_cxx() is None, reason="no sandbox, or no compiler"
)
PLUGIN = """
#include "fashion_ops_plugin.h"
#include "%s/tests/attacks/cpu/conv.h"
static int run(fops_plugin_call* call) {
  const fops_conv& c = call->conv;
  call->op_seconds = -1;
  %s
  return FOPS_OK;
}
static const fops_kernel_plugin plugin = {FOPS_PLUGIN_ABI, FOPS_GPU, %d, 0, 1, "", "", "", nullptr, run};
extern "C" const fops_kernel_plugin* fops_kernel_plugin_main(void) { return &plugin; }
"""
CONVOLVE = "convolve(call->x, call->k, call->y, c.B, c.M, c.C, c.H, c.W, c.K);"
ROOT = Path(__file__).resolve().parents[2]


def compiled(target, *words):
    subprocess.run([compilers.find_cxx(), "-shared", "-fPIC", "-O2", *map(str, words), "-o", str(target)], check=True)
    return target


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    library = compiled(folder / "libcuda.so.1", "-x", "c", FAKE)
    loaded = ctypes.CDLL(str(library))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(driver, "library", lambda: loaded)
        for shared in (tensors.DeviceTensors, HostTensors):
            patched.setattr(shared, "latency", 10.0)  # seconds: the cores may be busy
        patched.setattr(lag, "_SHAPE", ConvolutionShape(8, 1, 28, 28, 50, 5))  # small, because the fake device is slow
        patched.setattr(lag, "_SWEPT", 1 << 16)
        patched.setattr(lag, "_CALLS", 6)
        for function in (built, queue):
            patched.setattr(lag, function.__name__, function)
        yield library


# Stand-ins for the functions of `lag`: the fake driver cannot run the kernels of the library.
def built(folder):
    (folder / "known.cpp").write_text(PLUGIN % (ROOT, CONVOLVE, False))
    include = f"-I{installation.resource_dir('include')}"
    return BuiltSubmission("plugin", compiled(folder / "known.so", include, folder / "known.cpp"), 0.0, False)


def queue(shape, x, k, y):
    driver.call("cuMemsetD32_v2", *map(ctypes.c_ulonglong, (y, 0, np.prod(shape.output))))


class Device:
    """A stand-in for `device.Gpu` with the methods that a referee uses."""

    def __init__(self, library):
        self._library = library
        self._device = driver.begin(0)
        self._scratch = ctypes.c_ulonglong()
        driver.call("cuMemAlloc_v2", ctypes.byref(self._scratch), ctypes.c_size_t(2 << 20))

    def tensors(self, places, beside=NO_LAG):
        return tensors.DeviceTensors(self._device, places, self._scratch.value, beside)

    def lag(self, machine):
        return lag.measured(self, machine)

    def shown(self, box):
        return box._replace(read=(*box.read, str(self._library)), gpu=True, library_path=str(self._library.parent))


def judged(fake, folder, body, host_memory=False, device=None):
    source, target = folder / "plugin.cpp", folder / "plugin.so"
    source.write_text(PLUGIN % (ROOT, body, host_memory))
    compiled(target, f"-I{installation.resource_dir('include')}", source)
    asked = rubric.parse((ROOT / "tests" / "attacks" / "rubric.toml").read_text(), "small")
    asked = asked._replace(backend="gpu", limits=asked.limits._replace(seconds=10.0))
    plugin = BuiltSubmission("plugin", target, 0.0, host_memory)
    found = Referee(plugin, asked, Seed.fresh(), Machine(available(), gpu=device or Device(fake))).observe()
    return found, marks.of(asked, found)


@NEEDS
@pytest.mark.parametrize("host_memory", [False, True], ids=["device memory", "copies by itself"])
def test_an_honest_kernel_has_full_marks(fake, tmp_path, host_memory):
    found, earned = judged(fake, tmp_path, CONVOLVE, host_memory)
    assert (found.findings, earned.points) == ((), 100)
    assert found.layers["seccomp"] and any(s.timed for s in found.samples)


BODIES = [
    (CONVOLVE + "call->y[outputs(c.B, c.M, c.H, c.W, c.K)] = 0;", "writes_after_end"),
    (CONVOLVE + "const_cast<float*>(call->x)[3] += 1;", "inputs_changed"),
    ("static int calls; if (calls++ == 0) " + CONVOLVE, "later_call"),
    ("return 6;", "failed"),
    ("_exit(0);", "exit"),
    ("", "not_written"),
]


@NEEDS
@pytest.mark.parametrize("body, kind", drawn(BODIES, 2), ids=lambda one: one if one.isalpha() else "")
def test_faults_of_a_kernel_are_found(fake, tmp_path, body, kind):
    found, earned = judged(fake, tmp_path, body)
    assert kind in [finding.code for finding in found.findings] and earned.op_ms is None


def test_inputs_are_written_only_when_they_are_shown(fake):
    shape = ConvolutionShape(5, 2, 8, 8, 3, 3)
    device = Device(fake).tensors([place(shape), place(shape._replace(B=9))])
    stream = KeyedStream.fresh()
    bracket = device.bracket(True)
    assert len(bracket) == 10 and device.bracket(False) == bracket[:1]
    places = [slot.prepare(shape, stream) for slot in bracket]
    filled = [random_inputs(stream, shape) for _ in bracket]
    for slot, each in zip(bracket, filled):
        assert slot.fill(each, float("nan")) >= 0 and not slot.same_inputs(each)
    device.show(bracket)
    for turn, counts in ((float("inf"), False), (0.0, True)):  # a wait counts if longer than `turn`
        device.lag = Lag(0.0, turn)
        assert (device.settled() > 0) == counts and device.turn > 0
    for slot, each in zip(bracket, filled):
        assert slot.same_inputs(each) and not slot.stray()
        slot.take()
        assert np.isnan(slot.y).all() and slot.y.shape == shape.output
    slot, before = bracket[1], bracket[1].digest()
    slot.fill(filled[1], 0.0)
    slot.take()
    assert not slot.y.any() and slot.digest() != before
    block = (ctypes.c_ubyte * device._block.size).from_address(device._block.address)
    for slot, lies in zip(bracket, places):
        for start, stop in lies.guards:
            for at in (start, stop - 1):
                block[at] ^= 1
                assert any(each.stray() for each in bracket)
                block[at] ^= 1
        assert not slot.stray()
    device.close()


def test_a_failed_driver_call_is_named(fake):
    with pytest.raises(driver.DriverError, match="cuInit: CUDA_ERROR_INVALID_VALUE"):
        driver.call("cuInit", 7)


@NEEDS
def test_the_lag_is_measured_and_subtracted(fake, tmp_path):
    device = Device(fake)
    found = device.lag(Machine(available()))
    # On a machine with other work, the difference of two medians may be noise.
    assert 0 <= found.word < 10 and found.turn >= NO_LAG.turn
    # With a lag of 100 s, each call has the least possible time, and each of ten calls in a bracket a tenth of it.
    device.lag = lambda machine: found._replace(word=100.0)
    observed, _ = judged(fake, tmp_path, CONVOLVE, device=device)
    assert {round(1e6 * sample.seconds, 3) for sample in observed.samples} <= {1.0, 0.1}


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=9), st.floats(0, 1))
def test_the_lag_is_a_brackets_time_without_its_calls(drifts, lag_seconds):
    # Some brackets take longer by one clock or by both. The medians must not change.
    steady = [lag.Bracket(lag_seconds + 2.0, 2.0, 0.0)] * (2 * len(drifts) + 1)
    noisy = [lag.Bracket(lag_seconds + 2.0 + more, 2.0 + late, 0.0) for more, late in drifts]
    assert lag.beside(steady + noisy) == pytest.approx(lag_seconds, abs=1e-9)
    # Noise never makes the lag negative.
    assert lag.beside([lag.Bracket(1.0, 1.0 + lag_seconds, 0.0)]) == 0


def test_driver_timed_measures_with_events(fake):
    assert 0.02 <= driver.timed(lambda: time.sleep(0.02)) < 10


@pytest.mark.parametrize("again, kinds", [(0.1, []), (0.9, ["too_fast"])])
def test_the_fill_is_measured_again_before_a_call_is_too_fast(again, kinds):
    case = samples.Case(1, ConvolutionShape(1000, 1, 28, 28, 50, 5))
    seen = notes.Notes(rubric.default("fa2017"))
    seen.fill[case] = 1.0  # as if another program had disturbed the measurement
    slot = SimpleNamespace(refill=lambda value: again)
    called = session.TimedBracket(0.3, 0, 0.3, 0.3, 0, "")
    seen.clocks(SimpleNamespace(floor=0.5, on_device=False, latency=0.0), case, called, False, [slot])
    assert [finding.code for finding in seen.findings] == kinds and seen.fill[case] == again
