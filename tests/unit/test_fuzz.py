"""The harness of scripts/gpu_fuzz, on the CPU: it accepts correct kernels and finds planted errors."""

import ctypes
import re

import bounds
import numpy as np
import profiles
import pytest
import reference
from fuzz import bound, convolutions, draw, networks, places, session

from fashion_infer.library import bindings

SEED = np.random.SeedSequence().entropy % 2**40


def run(place, what, seeds):
    """Return the failures of some cases."""
    found = []
    for seed in range(SEED, SEED + seeds):
        failures, worst, passes = session.RUNS[what](place, seed)
        assert passes and worst
        found += [(seed, text) for _, text in failures]
    return found


@pytest.mark.parametrize("what, seeds", [("convolutions", 25), ("networks", 25)])
def test_kernels_and_networks_of_the_cpu_have_no_failure(what, seeds):
    assert run(places.Cpu(), what, profiles.examples(seeds)) == []


def test_the_bound_of_plain_chains():
    """The bound for kernels that add products one after another allows the error that such a sum has.

    The sum has 6,272 equal terms, added as steps 1 to 9 of the ladder on a GPU add them (docs/precision.md).
    """
    n, losses = 6272, []
    for value in np.random.default_rng(SEED).uniform(0.5, 1.5, 100).astype(np.float32):
        chain = np.cumsum(np.full(n, value, np.float32), dtype=np.float32)[-1]
        losses.append(abs(float(chain) - n * float(value)) / bound.of_sum(n, n * float(value)))
    assert 1 < max(losses) <= bounds.times("unrolled", n)
    assert bounds.times("auto", n) == 1 < bounds.times("implicit-gemm", n) < bounds.times("unrolled", n)


def test_a_seed_determines_a_case():
    for kind in (convolutions, networks):
        one, same, other = (kind.Case(seed, 1 << 16) for seed in (SEED, SEED, SEED + 1))
        assert str(one) == str(same) != str(other) and np.array_equal(one.x, same.x, equal_nan=True)


def test_all_kinds_of_cases_are_drawn():
    cases = [convolutions.Case(seed, 1 << 12) for seed in range(SEED, SEED + 1000)]
    assert {case.kind for case in cases} == set(draw.KINDS) and {case.weights for case in cases} == set(draw.WEIGHTS)
    shapes = [case.shape for case in cases]
    assert any(s.W == s.K for s in shapes) and any(s.H == s.K for s in shapes) and any(s.K == 11 for s in shapes)
    assert any(s.H > 4 * s.W for s in shapes) and any(s.W > 4 * s.H for s in shapes)
    assert any(case.offsets[0] % 16 for case in cases) and max(s.M for s in shapes) > 64 < max(s.C for s in shapes)
    assert all(draw.columns(s) <= 1 << 12 and min(s) >= 1 and min(s.H, s.W) >= s.K for s in shapes)


class Broken(places.Cpu):
    """The CPU as a place, with an error that is planted after each run of a kernel or network."""

    def __init__(self, mistake):
        self._mistake = mistake

    def forward(self, kernel, conv, x, k, y):
        status = super().forward(kernel, conv, x, k, y)
        self._mistake(x, y)
        return status

    def run(self, network, x, out):
        super().run(network, x, out)
        self._mistake(None, places.Buffer(None, 0, out, out.ctypes.data, 0))


def poke(address):
    ctypes.memset(address, 1, 1)


MISTAKES = {
    "times": lambda x, y: np.multiply(y.values, np.float32(1.001), out=y.values, where=np.isfinite(y.values)),
    "beside the output": lambda x, y: poke(y.address + y.values.nbytes),
    "beside its output": lambda x, y: poke(y.address - 1),
    "beside an input": lambda x, y: poke(x.address - 1),
    "into its inputs": lambda x, y: x.values.reshape(-1)[:1].fill(77),
    "infinities or NaN": lambda x, y: y.values[~np.isfinite(y.values)].size and y.values.fill(0),
}


def finds(said, what, seeds):
    """Return whether one of `seeds` cases reports the planted error."""
    place = Broken(MISTAKES[said])
    return any(said in text for seed in range(SEED, SEED + seeds) for _, text in session.RUNS[what](place, seed)[0])


@pytest.mark.parametrize("said", [said for said in MISTAKES if said != "beside its output"])
def test_errors_of_a_kernel_are_found(said):
    assert finds(said, "convolutions", 200)  # enough cases: one in nine has infinities or NaN


@pytest.mark.parametrize("said", ["times", "beside its output"])
def test_errors_of_a_network_are_found(said):
    assert finds(said, "networks", 100)


def test_an_image_that_depends_on_its_batch_is_found():
    def mistake(x, y):
        y.values[...] = np.nextafter(y.values, np.float32(np.inf)) if len(y.values) % 2 else y.values

    assert any("alone give other bits" in text for _, text in run(Broken(mistake), "networks", 20))


def test_an_output_that_is_not_written_is_found():
    class Lazy(places.Cpu):
        def forward(self, kernel, conv, x, k, y):
            return bindings.OK

    # Several cases, because in one seed of 300 all values are NaN.
    failures = [text for seed in range(SEED, SEED + 20) for _, text in convolutions.run(Lazy(), seed)[0]]
    assert failures and all("times the bound" in text or "infinities" in text for text in failures)


def test_the_bound_of_a_chain_contains_the_float64_result():
    for seed in range(SEED, SEED + 20):
        case = networks.Case(seed, 1 << 16)
        x, limit = bound.chain(places.Cpu(), case.chain.layers, case.weights, case.x)
        want = reference.forward(case.chain.layers, case.weights, case.x).reshape(case.n, -1)
        np.testing.assert_allclose(x, want, rtol=1e-9, atol=1e-11)
        assert (limit > 0).all() and limit.shape == want.shape


def test_the_bound_of_a_sum():
    assert bound.of_sum(25, 3.0) == 2.0**-24 * 9 * 3 + np.finfo(np.float32).tiny


def test_a_session_prints_counts_and_failing_cases(capsys):
    assert session.run(places.Cpu(), "convolutions", 0, SEED)
    assert not session.run(Broken(MISTAKES["times"]), "convolutions", 0.5, SEED)
    out = capsys.readouterr().out
    assert f"seed {SEED}" in out and "1 cases" in out and re.search(r"--only convolutions --case \d+", out)
