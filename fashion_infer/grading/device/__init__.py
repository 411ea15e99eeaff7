"""The referee's side of a GPU: the device, the tensors on it, and whether it is well."""

from .gpu import Gpu

__all__ = ["Gpu"]
