"""Alternatives to our kernels and networks, one file per peer. The files of `machines` list which peers run where.

A peer's functions return contenders, whose samples are outputs as NumPy. They raise ImportError or DeviceError where
the peer cannot be loaded. On the CPU they take, of one convolution, x (B,C,H,W) and weight (M,C,K,K), and of a network
a RandomNetwork and images x (n,C,H,W), all float32, and the number of threads. On a GPU they take the tensors of
`machines.tensors`, and of a network images (n,C,H,W) uint8 and whether these lie in pinned host memory and the
predictions go back to it; else the images are widened to float32 on the device beforehand, and the scores stay there.
"""
