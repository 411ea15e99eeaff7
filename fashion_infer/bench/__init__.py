"""The convolution kernels, checked and then timed beside what a user could pick instead.

`conv.convolutions` does it; `host` and `cuda` are where it can run, `host_peers` and `cuda_peers` what it is compared
with, `timing` how it is timed, `report` and `page` what is said of it.
"""
