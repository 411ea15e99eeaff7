"""cuDNN, through PyTorch's conv2d."""

from typing import List

from ..timing import Contender
from .torch import PRECISIONS, layouts, on_gpu


def convolution(tensors, x, weight) -> List[Contender]:
    """Return contenders for cuDNN in float32 and TF32, in both memory layouts, with cuDNN's benchmark mode."""
    torch = on_gpu(tensors)

    def contender(name, tf32, layout, memory):
        data, filters = x.contiguous(memory_format=memory), weight.contiguous(memory_format=memory)

        def run():
            with torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=tf32), torch.no_grad():
                return torch.nn.functional.conv2d(data, filters)

        return Contender(f"cudnn {name}", run, tensors.take, layout)

    return [contender(name, tf32, layout, memory) for name, tf32 in PRECISIONS for layout, memory in layouts(torch)]
