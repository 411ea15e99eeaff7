"""Several GPUs that compute at the same time give the results of one GPU, in order. Skipped on a host with one GPU."""

import subprocess
import sys
from pathlib import Path

import chains
import library
import numpy as np
import pytest
import torch_chains
from torch_chains import error, weights

from fashion_infer.system.sharing import share

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(library.device_count() < 2, reason="needs two CUDA devices")]
GPUS = range(library.device_count())


@pytest.mark.parametrize("name", ["fa2017", "fa2019", "fa2020"])
def test_fused_networks_on_all_devices_at_once(torch, name):
    chain = chains.course(name, logits=True)
    arrays, images = weights(chain), chain.items(3000)
    want = torch_chains.reference(torch, chain, images[::50], arrays)
    networks = [chain.fused(arrays, backend="gpu", device=gpu) for gpu in GPUS]
    alone = networks[0].forward(images)
    out = np.full_like(alone, np.nan)
    for _ in range(3):
        out.fill(np.nan)

        def work(network, first, out=out):
            network.forward(images[first : first + 70], out=out[first : first + 70])

        share(networks, range(0, len(images), 70), work)
        np.testing.assert_array_equal(out, alone)  # results depend on neither batch nor device
    assert error(out[::50], want) <= 2e-6


def test_every_kernel_on_the_last_device():
    rng = np.random.default_rng()
    x = rng.integers(0, 256, (9, 1, 28, 28)).astype(np.float32)
    k = rng.standard_normal((50, 1, 5, 5)).astype(np.float32)
    want = library.reference(x, k)
    for name, precision in library.kernels():
        status, y = library.staged(name, x, k, device=GPUS[-1])
        assert status == library.OK, library.message()
        assert library.error(y, want) <= library.TOLERANCE[precision]


def test_pinned_buffers_through_all_devices():
    """The script exits with 1 if a prediction of one GPU or of all differs."""
    script = Path(__file__).resolve().parents[2] / "scripts" / "gpu_bench.py"
    options = ["gpus", "--images", "200000", "--batch", "10000", "--repeat", "2"]
    subprocess.run([sys.executable, str(script), *options], check=True)
