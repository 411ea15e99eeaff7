"""Kernels can be launched for all tested shapes, although the blocks and shared memory of a launch are limited."""

import chains
import library
import numpy as np
import pytest
import torch_chains

from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Tanh

pytestmark = pytest.mark.gpu


def status_of(torch, shape, name="auto"):
    """Run one pass over zeros and wait for it; return the library's status."""
    B, C, H, W, M, K = shape
    x, k = torch.zeros(B, C, H, W, device="cuda"), torch.zeros(M, C, K, K, device="cuda")
    y = torch.empty(B, M, H - K + 1, W - K + 1, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    status = library.load().fops_conv_forward_gpu(
        name.encode(), library.conv_of(x, k), x.data_ptr(), k.data_ptr(), y.data_ptr(), stream
    )
    torch.cuda.synchronize()
    return status


def test_dynamic_and_static_shared_memory_of_48_kb_together(torch):
    # On Hopper the dynamic part alone is exactly 48 KB, the most without an opt-in. With the static part it is more.
    assert status_of(torch, (7, 2, 55, 7, 16, 5)) == library.OK, library.message()


@pytest.mark.parametrize("C, M, K", [(1, 6, 5), (1, 50, 5), (2, 16, 5), (3, 9, 5), (6, 16, 5), (8, 24, 3), (33, 32, 1)])
def test_all_heights_and_widths_are_accepted(torch, C, M, K):
    # The shared memory that a shape would need grows with height and width, up to more than the device has.
    for W in (K, K + 1, K + 2, 12, 31):
        for H in range(K, 130):
            assert status_of(torch, (7, C, H, W, M, K)) == library.OK, ((C, H, W, M, K), library.message())


def test_all_numbers_of_filters_and_channels_are_accepted(torch):
    for C in (1, 2, 5, 64, 65, 256):
        for M in range(1, 257, 5):
            assert status_of(torch, (2, C, 9, 11, M, 3)) == library.OK, ((C, M), library.message())


def test_networks_of_every_height(torch):
    for height in range(6, 90):
        chain = chains.Chain([Convolution(17, 5), Tanh(), MaxPool(), Flatten(), Dense(3)], (1, height, 9))
        arrays, images = torch_chains.weights(chain), chain.items(5)
        want = torch_chains.reference(torch, chain, images, arrays)
        scores = chain.fused(arrays, backend="gpu").forward(images)
        assert np.abs(scores - want).max() <= 1e-5 * max(1, np.abs(want).max()), height
