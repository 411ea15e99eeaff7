"""Inputs of judged calls, from keyed streams: a public seed gives the same inputs, a secret one cannot be guessed."""

import hashlib
import secrets
from typing import NamedTuple, Tuple

import numpy as np

from ..graph.layers import ConvolutionShape

_BLOCK = 1 << 20  # bytes that one hash generates
# Step between neighbours of the 65,536 values from -1 to 1. It is not a power of two, so half precision cannot
# represent the values exactly, and sums of a few values are not exact either.
_STEP = np.float32(1 / 32768.9)


class Inputs(NamedTuple):
    """Data (B,C,H,W) and weights (M,C,K,K) of one call, float32."""

    x: np.ndarray
    k: np.ndarray

    @property
    def shape(self) -> ConvolutionShape:
        B, C, H, W = self.x.shape
        return ConvolutionShape(B, C, H, W, len(self.k), self.k.shape[2])


class KeyedStream:
    """Random numbers from SHAKE128 of a key and a counter. The key cannot be computed from the numbers."""

    def __init__(self, key: bytes):
        self._key, self._blocks = key, 0

    @classmethod
    def fresh(cls) -> "KeyedStream":
        return cls(secrets.token_bytes(32))

    def take(self, count: int) -> bytes:
        return b"".join(self._block(min(_BLOCK, count - start)) for start in range(0, count, _BLOCK))

    def words(self, count: int) -> np.ndarray:
        """Return the next `count` integers of 64 bits."""
        return np.frombuffer(self.take(8 * count), "<u8")

    def below(self, limit: int, count: int) -> np.ndarray:
        """Return the next `count` integers from 0 to `limit` - 1, int64."""
        return (self.words(count) % np.uint64(limit)).astype(np.int64)

    def uniform(self, count: int) -> np.ndarray:
        """Return the next `count` float64 numbers, greater than 0 and at most 1."""
        return ((self.words(count) >> np.uint64(11)) + np.uint64(1)) * 2.0**-53

    def normal(self, count: int) -> np.ndarray:
        """Return the next `count` float64 numbers of a normal distribution."""
        half = -(-count // 2)
        radius, angle = np.sqrt(-2 * np.log(self.uniform(half))), 2 * np.pi * self.uniform(half)
        return np.r_[radius * np.cos(angle), radius * np.sin(angle)][:count]

    def shuffled(self, things) -> Tuple:
        return tuple(things[int(index)] for index in np.argsort(self.words(len(things)), kind="stable"))

    def fill(self, values: np.ndarray, dtype: str) -> None:
        """Fill a flat array with the next bytes, read as the unsigned type `dtype`."""
        size = _BLOCK // np.dtype(dtype).itemsize
        for start in range(0, len(values), size):
            piece = values[start : start + size]
            piece[...] = np.frombuffer(self._block(piece.size * np.dtype(dtype).itemsize), dtype)

    def _block(self, count: int) -> bytes:
        self._blocks += 1
        return hashlib.shake_128(self._key + self._blocks.to_bytes(8, "big")).digest(count)


class Seed(NamedTuple):
    """128 bits from which the inputs of all calls are derived. A grader's seed is secret until its verdict."""

    value: int

    @classmethod
    def fresh(cls) -> "Seed":
        return cls(secrets.randbits(128))

    @property
    def hex(self) -> str:
        """The seed in hexadecimal, as verdicts contain it."""
        return f"{self.value:032x}"

    def stream(self, *numbers: int) -> KeyedStream:
        """Return the stream for one purpose: its key is BLAKE2b of the numbers that identify it, keyed by the seed."""
        purpose = ",".join(map(str, numbers)).encode()
        return KeyedStream(hashlib.blake2b(purpose, digest_size=32, key=self.value.to_bytes(16, "big")).digest())


def random_inputs(stream: KeyedStream, shape: ConvolutionShape) -> Inputs:
    """Generate normal weights, and pixels from 0 to 255 for one channel, or values from -1 to 1 for several.

    A network's first layer has one channel, and its later layers have several.
    """
    x = np.empty(int(np.prod(shape.data)), np.float32)
    stream.fill(x, "u1" if shape.C == 1 else "<u2")
    if shape.C > 1:
        x -= np.float32(32767.5)
        x *= _STEP
    k = stream.normal(int(np.prod(shape.weights))).astype(np.float32)
    return Inputs(x.reshape(shape.data), k.reshape(shape.weights))
