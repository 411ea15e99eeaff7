"""Somebody's kernel file: its format, a plug-in built from it, and a kernel of the operator library by its name."""

from .checking import check
from .loading import Loaded, load

__all__ = ["Loaded", "check", "load"]
