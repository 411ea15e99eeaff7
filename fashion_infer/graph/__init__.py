"""Layers, and MXNet's symbols as plain JSON. Nothing here needs MXNet."""
