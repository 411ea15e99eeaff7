"""Random convolutions and fused networks against float64: what scripts/gpu_fuzz runs for as long as it is told.

draw.py draws shapes, data and networks from a case's seed; places.py has memory with guard zones, and float64, on the
CPU and on a GPU; convolutions.py and networks.py run a case; session.py runs cases until the time is up. NumPy is all
that the CPU needs; a GPU needs PyTorch.
"""
