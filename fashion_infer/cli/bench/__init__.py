"""Commands that measure kernels and networks, and commands that read saved measurements."""
