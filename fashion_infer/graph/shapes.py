"""The sizes of a convolution, and derived quantities."""

import math
from typing import NamedTuple, Tuple


class ConvolutionShape(NamedTuple):
    """A valid, stride-1 convolution of (B,C,H,W) with (M,C,K,K), all float32."""

    B: int
    C: int
    H: int
    W: int
    M: int
    K: int

    @property
    def title(self) -> str:
        images = f"{self.B:,} image{'s' if self.B > 1 else ''}"
        return f"{self.C} to {self.M} channels, {self.K}x{self.K}, on {self.H}x{self.W}, {images}"

    @property
    def data(self) -> Tuple[int, int, int, int]:
        return self.B, self.C, self.H, self.W

    @property
    def weights(self) -> Tuple[int, int, int, int]:
        return self.M, self.C, self.K, self.K

    @property
    def output(self) -> Tuple[int, int, int, int]:
        return self.B, self.M, self.H - self.K + 1, self.W - self.K + 1

    @property
    def outputs(self) -> int:
        return math.prod(self.output)

    @property
    def operations(self) -> int:
        """Floating-point operations: two for each multiply-add."""
        return 2 * self.outputs * self.C * self.K**2

    @property
    def bytes(self) -> int:
        """Bytes of input, weights and output, each moved once."""
        return 4 * (self.B * self.C * self.H * self.W + self.M * self.C * self.K**2 + self.outputs)

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: operations per byte."""
        return self.operations / self.bytes
