"""Peers: third-party alternatives to our kernels and networks. Each has a row in `PEERS` and a file in this folder.

A peer's functions return contenders, whose `sample` returns NumPy arrays. They raise ImportError or DeviceError if the
peer cannot be loaded. On the CPU, data is (B,C,H,W) float32. On a GPU, the first argument is the framework from
`machines.tensors`, and a network's images are uint8: in pinned memory if predictions go to the host, else converted to
float32 before timing.
"""

import importlib
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence


class Peer(NamedTuple):
    name: str  # name in `--against`
    title: str
    package: Optional[str]  # name of the package to import; None if the peer's function reports what is missing
    convolution: Mapping[str, str]  # key: backend; value: "module.function" of this folder
    network: Mapping[str, str]  # like `convolution`, for a whole network
    in_report: bool = True  # whether `report` includes the peer


# `report` does not include torch-compile, because it takes minutes for each batch size on a GPU.
PEERS = (
    Peer("cudnn", "cuDNN", None, {"gpu": "torch.cudnn_convolution"}, {}),
    Peer("torch", "PyTorch", "torch", {"cpu": "torch.convolution"},
         {"cpu": "torch.network", "gpu": "torch.network_on_gpu"}),
    Peer("torch-compile", "PyTorch, compiled", "torch", {},
         {"cpu": "torch_compile.network", "gpu": "torch_compile.network_on_gpu"}, in_report=False),
    Peer("onnxruntime", "ONNX Runtime", "onnxruntime", {"cpu": "onnxruntime.convolution"},
         {"cpu": "onnxruntime.network"}),
    Peer("mxnet", "MXNet", "mxnet", {"cpu": "mxnet.convolution"}, {"cpu": "mxnet.network"}),
)  # fmt: skip
CONVOLUTION = tuple(peer for peer in PEERS if peer.convolution)
NETWORK = tuple(peer for peer in PEERS if peer.network)


def names(peers: Sequence[Peer]) -> List[str]:
    return [peer.name for peer in peers]


def find(name: str) -> Peer:
    return {peer.name: peer for peer in PEERS}[name]


def convolutions(backend: str) -> Dict[str, Callable]:
    return {peer.name: _function(peer.convolution[backend]) for peer in CONVOLUTION if backend in peer.convolution}


def networks(backend: str) -> Dict[str, Callable]:
    return {peer.name: _function(peer.network[backend]) for peer in NETWORK if backend in peer.network}


def _function(path: str) -> Callable:
    module, name = path.split(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
