"""What a user could run on a GPU instead: cuDNN, through PyTorch's conv2d."""

from typing import List

from ..rows import Contender


def cudnn(tensors, x, weight) -> List[Contender]:
    """cuDNN in float32 and TF32, in both layouts, with its benchmark mode; ImportError without PyTorch's tensors."""
    torch = getattr(tensors, "torch", None)
    if torch is None:
        raise ImportError("PyTorch with CUDA is not installed")

    def contender(name, tf32, layout, memory):
        data, filters = x.contiguous(memory_format=memory), weight.contiguous(memory_format=memory)

        def run():
            with torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=tf32), torch.no_grad():
                return torch.nn.functional.conv2d(data, filters)

        return Contender(name, run, tensors.take, layout)

    return [
        contender(name, tf32, layout, memory)
        for name, tf32 in (("cudnn fp32", False), ("cudnn tf32", True))
        for layout, memory in (("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last))
    ]


PEERS = {"cudnn": cudnn}
