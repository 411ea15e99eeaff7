"""The CPU as a place to run whole networks on."""

from importlib import metadata
from typing import Dict, List, Sequence, Tuple

import numpy as np

from ... import _mxnet
from .. import request
from ..net_rows import MEMORY
from ..peers import host_networks
from ..random_network import RandomNetwork, shapes
from ..rows import Contender
from .host import Host, check_memory


class HostNetworks:
    """Images and scores in host memory; every contender uses as many threads as the library."""

    backend = "cpu"
    peer_names = tuple(host_networks.PEERS)
    precisions = ("float32",)
    default_repeat = 12

    def __init__(self):
        self._host = Host()
        _mxnet.set_threads(self._host.threads)  # before it is loaded, and that is before the first network is built

    def describe(self, peers: Sequence[str]) -> Tuple[Dict, Dict]:
        """What identifies this machine, and versions."""
        device, versions = self._host.describe()
        packages = dict.fromkeys(request.package_of(peer) for peer in peers)
        return device, {**versions, **{package: _version(package) for package in packages}}

    def cases(self, batches: Sequence[int]) -> List[Tuple[str, int]]:
        """What is measured: (where, batch)."""
        return [(MEMORY, batch) for batch in batches]

    def check(self, network: RandomNetwork, batch: int, peers: Sequence[str]) -> None:
        """Refuse a batch that memory does not hold. A peer keeps its two largest activations, and its heap half as much
        again: three of them took 10.4 GB for 10,000 images of fa2017."""
        largest = max(int(np.prod(shape)) for shape in shapes(network.steps, network.shape))
        packages = {request.package_of(peer) for peer in peers}
        check_memory(batch * (12 * largest * len(packages) + 9 * int(np.prod(network.shape))))

    def load(self, where: str, network: RandomNetwork, images: np.ndarray) -> None:
        """Take a case's network and images, (n,C,H,W) uint8."""
        self._network, self._images, self._floats = network, images, None

    def ours(self, name: str, net) -> List[Contender]:
        """The fused network on the loaded images, uint8: widening them is a part of it."""
        images = self._images
        out = np.full((len(images), int(np.prod(net.stages[-1].output))), np.nan, np.float32)
        return [Contender(name, lambda: net.forward(images, out=out), lambda y, picked: y[picked])]

    def peers(self, name: str) -> List[Contender]:
        """The peer's ways to run the loaded case on float32 images; ImportError or DeviceError when there are none."""
        if self._floats is None:
            self._floats = self._images.astype(np.float32)
        return host_networks.PEERS[name](self._network, self._floats, self._host.threads)

    def clock(self, where: str):
        """What `timing.interleaved` times with."""
        return self._host


def _version(package):
    # mxnet-cu112 and onnxruntime-gpu are imported as mxnet and onnxruntime, and have no metadata of that name.
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"
