"""The referee's side of a GPU: the device, its tensors, and checks of its health."""

from .gpu import Gpu

__all__ = ["Gpu"]
