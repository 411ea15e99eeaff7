"""KernelBot's form: data, weights and the output's tensor."""

import torch.nn.functional as F


def custom_kernel(data):
    x, k, y = data
    y[...] = F.conv2d(x, k)
    return y
