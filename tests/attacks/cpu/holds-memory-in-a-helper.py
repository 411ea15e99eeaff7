# Ends as: memory_limit. A process that it has forked holds the memory, while it is loaded.
import os
import time

import torch

if os.fork() == 0:
    held = bytearray(1 << 30)
    for at in range(0, len(held), 4096):
        held[at] = 1
    time.sleep(60)
    os._exit(0)
time.sleep(3)


def conv_forward(x, k):
    return torch.nn.functional.conv2d(x, k)
