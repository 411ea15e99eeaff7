"""Layers, and MXNet's symbols as plain JSON. This package does not need MXNet."""
