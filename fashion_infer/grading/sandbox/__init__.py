"""Somebody's code in a box: namespaces by bubblewrap, and under them what `inside.confine` puts in force."""

from .box import Box, Limits
from .layers import Layers, available, required
from .processes import Broken, Sandboxed, end_all
from .start import run, start

__all__ = ["Box", "Broken", "Layers", "Limits", "Sandboxed", "available", "end_all", "required", "run", "start"]
