"""The only package that imports mxnet. It does so when `load` is first called."""

from .loading import build, load, quiet
from .mxnet_lock import lock
from .threads import set_networks, set_threads

__all__ = ["build", "load", "lock", "quiet", "set_networks", "set_threads"]
