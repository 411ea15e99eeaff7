"""Random convolutions and fused networks, compared with float64; scripts/gpu_fuzz runs them for a given time.

draw.py draws shapes, data and networks from a case's seed. places.py has memory with guard zones and a float64
reference, for the CPU and for a GPU. convolutions.py and networks.py run a case. session.py runs cases until the time
is up. Cases on the CPU need only NumPy; cases on a GPU also need PyTorch.
"""
