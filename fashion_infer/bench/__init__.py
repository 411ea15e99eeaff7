"""Kernels and whole networks, checked and then timed beside what a user could pick instead.

`conv.convolutions` measures kernels and `net.networks` fused networks. Of both, `request` is what was asked for,
`timing` how it is timed, `files` and `markdown` how it is kept. Where they can run: `host` and `cuda`, and for networks
`net_host` and `net_cuda`. What they are compared with: `host_peers` and `cuda_peers`, `host_networks` and
`cuda_networks`.
"""
