"""The only package that imports mxnet. It does so when `load` is first called."""

from .loading import build, load, quiet, set_threads
from .mxnet_lock import lock

__all__ = ["build", "load", "lock", "quiet", "set_threads"]
