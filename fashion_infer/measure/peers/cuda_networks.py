"""What a user could run a whole network with on a GPU instead: PyTorch, eager and compiled, in float32 and TF32.

Each function takes the tensors of `cuda_tensors`, a RandomNetwork, images (n,C,H,W) uint8, and whether these lie in
pinned host memory and the predictions go back to it; else they are widened to float32 on the device beforehand, and
scores stay there. It returns contenders, and raises ImportError or DeviceError where PyTorch is not to be had.
"""

from typing import Callable, Dict, List, Tuple

import numpy as np

from ..rows import Contender
from . import torch_network

_PRECISIONS = (("fp32", False), ("tf32", True))


def torch(tensors, network, images: np.ndarray, to_host: bool) -> List[Contender]:
    """PyTorch, eager, in both layouts, with cuDNN's benchmark mode."""
    pytorch = _pytorch(tensors)
    found = []
    for name, tf32 in _PRECISIONS:
        for layout, memory in (("NCHW", pytorch.contiguous_format), ("NHWC", pytorch.channels_last)):
            function = torch_network.function(pytorch, network.steps, tensors.where, memory)
            run, sample = _run(tensors, function, images, to_host, tf32, memory)
            found.append(Contender(f"torch {name}", run, sample, layout))
    return found


def torch_compile(tensors, network, images: np.ndarray, to_host: bool) -> List[Contender]:
    """PyTorch's compiler, mode max-autotune; compiled before it returns.

    Predictions on the host take two kernels more than one compiled for that alone would: widening the pixels, 10
    microseconds for 10,000 images of fa2017, and the largest score.
    """
    functions = _compiled(tensors, network, images)
    memory = tensors.torch.contiguous_format
    found = []
    for name, tf32 in _PRECISIONS:
        run, sample = _run(tensors, functions[name], images, to_host, tf32, memory)
        found.append(Contender(f"torch-compile {name}", run, sample))
    return found


_latest: Dict[Tuple, Dict[str, Callable]] = {}


def _compiled(tensors, network, images):
    """The compiled functions by precision; those of the last call where nothing has changed, which saves minutes."""
    pytorch, key = _pytorch(tensors), (network.symbol, images.shape)
    if key not in _latest:
        _latest.clear()
        pytorch._dynamo.reset()  # else a second batch size is compiled for any size
        example = pytorch.from_numpy(images).to(tensors.where).float()
        made = {}
        for name, tf32 in _PRECISIONS:
            _set_precision(pytorch, tf32)
            plain = torch_network.function(pytorch, network.steps, tensors.where)
            made[name] = torch_network.compiled(pytorch, plain, example)
        _latest[key] = made
    return _latest[key]


def _pytorch(tensors):
    pytorch = getattr(tensors, "torch", None)
    if pytorch is None:
        raise ImportError("PyTorch with CUDA is not installed")
    return pytorch


def _set_precision(pytorch, tf32):
    pytorch.backends.cudnn.benchmark = True
    pytorch.backends.cudnn.allow_tf32 = tf32
    pytorch.set_float32_matmul_precision("high" if tf32 else "highest")


def _run(tensors, function, images, to_host, tf32, memory):
    """(run, sample) of a function from float32 images to scores, or to whatever else is on the device."""
    pytorch, pixels = tensors.torch, tensors.torch.from_numpy(images)

    def on_device():
        _set_precision(pytorch, tf32)
        with pytorch.no_grad():
            return function(data)

    def predictions():
        _set_precision(pytorch, tf32)
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


PEERS = {"torch": torch, "torch-compile": torch_compile}
