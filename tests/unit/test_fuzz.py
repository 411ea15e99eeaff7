"""Cases of scripts/gpu_fuzz on the CPU find no error in our kernels and networks."""

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
