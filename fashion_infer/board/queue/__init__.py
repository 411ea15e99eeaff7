"""Hands what waits to graders: on Ray, or as processes of this machine."""
