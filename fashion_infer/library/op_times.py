"""The library's op-time log: times of our operator's nodes and of fused stages."""

from typing import List, NamedTuple

from ..graph.layers import ConvolutionShape
from . import bindings


class OpTime(NamedTuple):
    """One forward pass of one node, or of the nodes that ran as one stage. Times in seconds."""

    first_node: int  # number of the operator's node, or of the stage's first node
    last_node: int  # number of the operator's node again, or of the stage's last node
    kernel: str  # the kernel that ran, never "auto"; "fused" for a stage
    shape: ConvolutionShape
    seconds: float  # kernel time, without transfers
    upload: float  # time of copies from host to device; 0 on the CPU
    download: float  # time of copies from device to host; 0 on the CPU
    item_bytes: int = 4  # bytes per element of the data; 1 for pixels
    layer_seconds: float = 0.0  # for a kernel file with phases, the sum of prolog, forward and epilog
    findings: int = 0  # FOPS_FOUND_* bits of fashion_ops_plugin.h: observed misbehaviour of a kernel file


def drain() -> List[OpTime]:
    """Remove and return all records of the log, oldest first."""
    lib = bindings.load()
    records = (bindings.OpRecord * max(1, lib.fops_log_size()))()
    count = lib.fops_log_drain(records, len(records))
    return [
        OpTime(
            r.first_node,
            r.last_node,
            r.kernel.decode(),
            ConvolutionShape(*(getattr(r.conv, name) for name in "BCHWMK")),
            r.seconds,
            r.upload,
            r.download,
            1 if r.conv.x_type == bindings.UINT8 else 4,
            r.layer_seconds,
            r.findings,
        )
        for r in records[:count]
    ]
