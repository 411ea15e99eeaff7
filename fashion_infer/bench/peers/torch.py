"""PyTorch in eager mode, on the CPU and on a GPU, where its conv2d runs cuDNN."""

import importlib
from typing import Callable, List

import numpy as np

from ...graph.layers import Convolution, Dense, Flatten, MaxPool, Relu, Tanh, walk
from ..timing import Contender

PRECISIONS = (("fp32", False), ("tf32", True))  # on a GPU: (name, whether TF32 is allowed)


def load(threads: int):
    """Import PyTorch and set its number of threads; ImportError if it is not installed."""
    pytorch = importlib.import_module("torch")
    pytorch.set_num_threads(threads)
    return pytorch


def layouts(pytorch):
    return (("NCHW", pytorch.contiguous_format), ("NHWC", pytorch.channels_last))


def convolution(x: np.ndarray, weight: np.ndarray, threads: int) -> List[Contender]:
    pytorch = load(threads)

    def contender(layout, memory):
        data = pytorch.from_numpy(x).contiguous(memory_format=memory)
        filters = pytorch.from_numpy(weight).contiguous(memory_format=memory)

        def run():
            with pytorch.no_grad():
                return pytorch.nn.functional.conv2d(data, filters)

        return Contender("torch", run, lambda y, indices: y[indices].contiguous().numpy(), layout)

    return [contender(layout, memory) for layout, memory in layouts(pytorch)]


def cudnn_convolution(tensors, x, weight) -> List[Contender]:
    """Return contenders for cuDNN in float32 and TF32, in both memory layouts, with cuDNN's benchmark mode."""
    pytorch = tensors.torch

    def contender(name, tf32, layout, memory):
        data, filters = x.contiguous(memory_format=memory), weight.contiguous(memory_format=memory)

        def run():
            with pytorch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=tf32), pytorch.no_grad():
                return pytorch.nn.functional.conv2d(data, filters)

        return Contender(f"cudnn {name}", run, tensors.take, layout)

    return [contender(name, tf32, layout, memory) for name, tf32 in PRECISIONS for layout, memory in layouts(pytorch)]


def network(network, x: np.ndarray, threads: int) -> List[Contender]:
    pytorch = load(threads)

    def contender(layout, memory):
        function = module(pytorch, network, memory_format=memory)
        data = pytorch.from_numpy(x).contiguous(memory_format=memory)

        def run():
            with pytorch.inference_mode():
                return function(data)

        return Contender("torch", run, lambda y, picked: y[picked].numpy(), layout)

    return [contender(layout, memory) for layout, memory in layouts(pytorch)]


def network_on_gpu(tensors, network, images: np.ndarray, to_host: bool) -> List[Contender]:
    """Return contenders for the network in float32 and TF32, in both layouts, with cuDNN's benchmark mode."""
    pytorch = tensors.torch
    contenders = []
    for name, tf32 in PRECISIONS:
        for layout, memory in layouts(pytorch):
            function = module(pytorch, network, tensors.where, memory)
            run, sample = runner(tensors, function, images, to_host, tf32, memory)
            contenders.append(Contender(f"torch {name}", run, sample, layout))
    return contenders


def set_precision(pytorch, tf32: bool) -> None:
    """Set whether PyTorch on a GPU may use TF32 instead of float32, and turn on cuDNN's benchmark mode."""
    pytorch.backends.cudnn.benchmark = True
    pytorch.backends.cudnn.allow_tf32 = tf32
    pytorch.set_float32_matmul_precision("high" if tf32 else "highest")


def runner(tensors, function: Callable, images: np.ndarray, to_host: bool, tf32: bool, memory):
    """Return `run` and `sample` of a contender for a function from a float32 tensor of images to a tensor of scores."""
    pytorch, pixels = tensors.torch, tensors.torch.from_numpy(images)

    def on_device():
        set_precision(pytorch, tf32)
        with pytorch.no_grad():
            return function(data)

    def predictions():
        set_precision(pytorch, tf32)
        with pytorch.no_grad():
            x = pixels.to(tensors.where, non_blocking=True).float().contiguous(memory_format=memory)
            answer.copy_(function(x).argmax(1), non_blocking=True)
        tensors.synchronize()
        return answer

    if to_host:
        answer = pytorch.from_numpy(tensors.pinned(np.zeros(len(images), np.int64)))
        return predictions, lambda y, picked: y[pytorch.from_numpy(picked)].numpy()
    data = pixels.to(tensors.where).float().contiguous(memory_format=memory)
    return on_device, tensors.take


def module(torch, network, where: str = "cpu", memory_format=None) -> Callable:
    """Build a RandomNetwork's module, from a float32 tensor (n,C,H,W) to the last layer's output."""
    F = torch.nn.functional
    steps = list(walk(network.layers, network.shape))

    class Network(torch.nn.Module):
        """The network, with its weights as buffers, which have fixed addresses in the compiler's CUDA graphs.

        If it were a plain function, the compiled code would copy the weights (14 MB for fa2017) in every run.
        """

        def __init__(self):
            super().__init__()
            for step in steps:
                for name in step.parameters:
                    self.register_buffer(name, torch.from_numpy(network.weights[name]))

        def forward(self, x):
            for step in steps:
                parameters = [getattr(self, name) for name in step.parameters]
                if isinstance(step.layer, Convolution):
                    x = F.conv2d(x, *parameters)
                elif isinstance(step.layer, Tanh):
                    x = torch.tanh(x)
                elif isinstance(step.layer, Relu):
                    x = torch.relu(x)
                elif isinstance(step.layer, MaxPool):
                    x = F.max_pool2d(x, step.layer.size, step.layer.step, ceil_mode=step.layer.full)
                elif isinstance(step.layer, Flatten):
                    x = x.flatten(1)
                elif isinstance(step.layer, Dense):
                    x = F.linear(x, *parameters)
                else:
                    x = F.softmax(x, 1)
            return x

    built = Network().to(where)
    return built if memory_format is None else built.to(memory_format=memory_format)
