"""Correctness of kernels: float64 references, trials of a kernel, diagnosis of an output, and the verdict."""
