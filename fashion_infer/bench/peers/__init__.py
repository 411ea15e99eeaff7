"""Alternatives to our kernels and networks: one row of `PEERS` and one file each.

A peer's functions return contenders, whose samples are outputs as NumPy. They raise ImportError or DeviceError if the
peer cannot be loaded. Their arguments:
- on the CPU, all float32: x (B,C,H,W) and weight (M,C,K,K) for a convolution, a RandomNetwork and images x (n,C,H,W)
  for a network; and the number of threads,
- on a GPU: the tensors of `machines.tensors`; for a network also images (n,C,H,W) uint8, and whether images and
  predictions are in pinned host memory. If not, the images are converted to float32 on the device beforehand, and the
  scores stay there.
"""

import importlib
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence


class Peer(NamedTuple):
    """A third-party program that benchmarks compare with."""

    name: str  # in `--against`
    title: str
    package: Optional[str]  # that it is imported from; None if the machine detects it
    convolution: Mapping[str, str]  # backend: "module.function" of this folder
    network: Mapping[str, str]
    in_grid: bool = True  # on the grid by default, without --against
    in_report: bool = True


# torch-compile takes minutes for each batch size on a GPU.
PEERS = (
    Peer("cudnn", "cuDNN", None, {"gpu": "cudnn.convolution"}, {}),
    Peer("torch", "PyTorch", "torch", {"cpu": "torch.convolution"},
         {"cpu": "torch.network", "gpu": "torch.network_on_gpu"}, in_grid=False),
    Peer("torch-compile", "PyTorch, compiled", "torch", {},
         {"cpu": "torch_compile.network", "gpu": "torch_compile.network_on_gpu"}, in_report=False),
    Peer("onnxruntime", "ONNX Runtime", "onnxruntime", {"cpu": "onnxruntime.convolution"},
         {"cpu": "onnxruntime.network"}),
    Peer("mxnet", "MXNet", "mxnet", {"cpu": "mxnet.convolution"}, {"cpu": "mxnet.network"}),
)  # fmt: skip
CONVOLUTION = tuple(peer for peer in PEERS if peer.convolution)
NETWORK = tuple(peer for peer in PEERS if peer.network)


def names(peers: Sequence[Peer]) -> List[str]:
    """Names of peers in `--against`."""
    return [peer.name for peer in peers]


def named(name: str) -> Peer:
    """The peer with this name; KeyError for an unknown one."""
    return {peer.name: peer for peer in PEERS}[name]


def convolutions(backend: str) -> Dict[str, Callable]:
    """The functions that measure one convolution on a backend, by peer."""
    return {peer.name: _function(peer.convolution[backend]) for peer in CONVOLUTION if backend in peer.convolution}


def networks(backend: str) -> Dict[str, Callable]:
    """The functions that measure a whole network on a backend, by peer."""
    return {peer.name: _function(peer.network[backend]) for peer in NETWORK if backend in peer.network}


def _function(path: str) -> Callable:
    module, name = path.split(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
