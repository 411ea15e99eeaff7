"""Cases of scripts/gpu_fuzz on the CPU: they find no error in our kernels, and find one that is planted."""

import ctypes

import numpy as np
import profiles
import pytest
from fuzz import places, session

SEED = np.random.SeedSequence().entropy % 2**40


@pytest.mark.parametrize("what", ["convolutions", "networks"])
def test_kernels_and_networks_of_the_cpu_have_no_failure(what):
    for seed in range(SEED, SEED + profiles.examples(25)):
        failures, worst, passes = session.RUNS[what](places.Cpu(), seed)
        assert passes and worst and not failures, seed


class Broken(places.Cpu):
    """The CPU as a place, with an error that is planted after each run of a kernel or network."""

    def __init__(self, mistake):
        self._mistake = mistake

    def forward(self, kernel, conv, x, k, y):
        status = super().forward(kernel, conv, x, k, y)
        self._mistake(y)
        return status

    def run(self, network, x, out):
        super().run(network, x, out)
        self._mistake(places.Buffer(None, 0, out, out.ctypes.data, 0))


MISTAKES = {
    "times": lambda y: np.multiply(y.values, np.float32(1.001), out=y.values, where=np.isfinite(y.values)),
    "beside": lambda y: ctypes.memset(y.address - 1, 1, 1),
    "images": lambda y: np.nextafter(y.values, np.float32(np.inf), out=y.values) if len(y.values) % 2 else None,
}


@pytest.mark.parametrize("what", ["convolutions", "networks"])
@pytest.mark.parametrize("said", [*MISTAKES])
def test_planted_errors_are_found(said, what):
    place = Broken(MISTAKES[said])
    said = {"images": "alone give other bits"}.get(said, said)
    runs = (session.RUNS[what](place, seed)[0] for seed in range(SEED, SEED + 100))
    assert any(said in text for failures in runs for _, text in failures)
