"""The referee's side of a GPU: the device, its tensors, the lag of calls, and checks that the device works properly."""

from .gpu import Gpu

__all__ = ["Gpu"]
