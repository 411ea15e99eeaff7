"""Chains of layers in PyTorch on the device: a float64 reference for large batches."""

import library  # noqa: F401, finds the package and the tests' helpers
import numpy as np

from fashion_infer.graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Tanh


def forward(torch, chain, x, weights):
    """Compute the chain with PyTorch, in the type and on the device of the tensor x.

    `weights` are those of `Chain.weights`.
    """
    tensors = iter(torch.as_tensor(weight).to(x) for weight in weights.values())
    for layer in chain.layers:
        if isinstance(layer, Convolution):
            x = torch.nn.functional.conv2d(x, next(tensors))
        elif isinstance(layer, Dense):
            weight = next(tensors)
            x = torch.nn.functional.linear(x.flatten(1), weight, next(tensors) if layer.bias else None)
        elif isinstance(layer, Tanh):
            x = torch.tanh(x)
        elif isinstance(layer, Relu):
            x = torch.relu(x)
        elif isinstance(layer, MaxPool):
            x = torch.nn.functional.max_pool2d(x, layer.size, layer.step, ceil_mode=layer.full)
        elif isinstance(layer, Flatten):
            x = x.flatten(1)
        else:
            x = torch.softmax(x.flatten(1), 1)
    return x.flatten(1)


def reference(torch, chain, items, weights):
    """Compute the chain with PyTorch in float64 on the device; return a NumPy array."""
    with torch.backends.cudnn.flags(enabled=False):
        return forward(torch, chain, torch.as_tensor(items).cuda().double(), weights).cpu().numpy()


def weights(chain, seed=0, pixels=True):
    """Return random weights with which sums are about 1.5 on average, where tanh has the strongest curvature."""
    return chain.weights(seed, pixels, gain=1.5)


def on_device(torch, network, x, out=None, stream=None):
    """Run one pass of a fused network over device tensors; return the output, which is filled with NaN before."""
    if out is None:
        out = torch.empty(len(x), int(np.prod(network.stages[-1].output)), device="cuda")
    stream = torch.cuda.current_stream() if stream is None else stream
    with torch.cuda.stream(stream):
        out.fill_(float("nan"))
    launch(torch, network, x, out, stream)
    return out


def launch(torch, network, x, out, stream=None):
    """Queue one pass of a fused network on a stream, by default the current one."""
    stream = torch.cuda.current_stream() if stream is None else stream
    dtype = np.uint8 if x.dtype == torch.uint8 else np.float32
    network.launch(len(x), x.data_ptr(), dtype, out.data_ptr(), stream.cuda_stream)


def error(y, want):
    """Return the largest error as a fraction of the range of `want`; infinity if y contains NaN."""
    worst = np.abs(y.astype(np.float64) - want)
    return float(np.where(np.isnan(worst), np.inf, worst).max() / max(want.max() - want.min(), 1e-300))
