"""Template for a Python kernel over torch tensors: x is (B,C,H,W), k (M,C,K,K), and the result (B,M,H-K+1,W-K+1)."""

import torch.nn.functional as F


def conv_forward(x, k):
    return F.conv2d(x, k)
