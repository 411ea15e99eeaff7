"""The only room that imports mxnet, and it does so when `load` is first called."""

from .alone import alone
from .loading import build, load
from .logs import quiet
from .threads import set_networks, set_threads

__all__ = ["alone", "build", "load", "quiet", "set_networks", "set_threads"]
