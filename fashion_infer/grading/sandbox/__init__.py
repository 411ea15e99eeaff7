"""Sandboxes ("boxes") for untrusted code: namespaces by bubblewrap, and the restrictions of `inside.confine`."""

from .box import Box, Limits
from .layers import Layers, available, required
from .processes import Broken, Sandboxed, end_all
from .start import run, start

__all__ = ["Box", "Broken", "Layers", "Limits", "Sandboxed", "available", "end_all", "required", "run", "start"]
