"""`bench conv --grid`: what `auto` runs on a grid of shapes, beside its peers.

`points` has the grid, `exact` checks sampled outputs, `measuring` times, `standing` says how ours stands.
"""
