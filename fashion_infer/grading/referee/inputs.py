"""Fresh inputs for every call, from a secret that only the referee has."""

import hashlib
import secrets
from typing import NamedTuple, Tuple

import numpy as np

from ...graph.shapes import ConvolutionShape

_BLOCK = 1 << 20  # bytes at a time, each a hash of its own
# 65,536 values between -1 and 1. No power of two, so that they are no halves either, nor sums of few.
_STEP = np.float32(1 / 32768.9)


class Inputs(NamedTuple):
    """Data and weights of one call."""

    x: np.ndarray
    k: np.ndarray


class SecretStream:
    """Random bytes of a key: SHAKE128 of the key and a counter.

    Who sees any of it, as a submission sees its inputs, learns neither the key nor what else comes of it.
    """

    def __init__(self, key: bytes):
        self._key, self._blocks = key, 0

    @classmethod
    def fresh(cls) -> "SecretStream":
        """One that did not exist before now."""
        return cls(secrets.token_bytes(32))

    def take(self, count: int) -> bytes:
        """The next bytes."""
        blocks = [self._block(min(_BLOCK, count - start)) for start in range(0, count, _BLOCK)]
        return b"".join(blocks)

    def words(self, count: int) -> np.ndarray:
        """The next numbers of 64 bits."""
        return np.frombuffer(self.take(8 * count), "<u8")

    def uniform(self, count: int) -> np.ndarray:
        """The next numbers above 0, up to 1, in float64."""
        return ((self.words(count) >> np.uint64(11)) + np.uint64(1)) * 2.0**-53

    def normal(self, count: int) -> np.ndarray:
        """The next numbers of a normal distribution, in float64."""
        half = -(-count // 2)
        radius, angle = np.sqrt(-2 * np.log(self.uniform(half))), 2 * np.pi * self.uniform(half)
        return np.r_[radius * np.cos(angle), radius * np.sin(angle)][:count]

    def fill(self, values: np.ndarray, dtype: str) -> None:
        """Give a flat array the next numbers of an unsigned type."""
        size = _BLOCK // np.dtype(dtype).itemsize
        for start in range(0, len(values), size):
            piece = values[start : start + size]
            piece[...] = np.frombuffer(self._block(piece.size * np.dtype(dtype).itemsize), dtype)

    def _block(self, count: int) -> bytes:
        self._blocks += 1
        return hashlib.shake_128(self._key + self._blocks.to_bytes(8, "big")).digest(count)


class Seed(NamedTuple):
    """A secret of 128 bits, from which every call's inputs follow; a verdict reveals it."""

    value: int

    @classmethod
    def fresh(cls) -> "Seed":
        """One that nobody could guess."""
        return cls(secrets.randbits(128))

    @property
    def hex(self) -> str:
        """As a verdict writes it."""
        return f"{self.value:032x}"

    def stream(self, *numbers: int) -> SecretStream:
        """Random bytes for one purpose, which the numbers name.

        Each purpose has a key of its own: BLAKE2b of the numbers, keyed with the secret.
        """
        purpose = ",".join(map(str, numbers)).encode()
        return SecretStream(hashlib.blake2b(purpose, digest_size=32, key=self.value.to_bytes(16, "big")).digest())


def fresh(stream: SecretStream, shape: ConvolutionShape, first: bool) -> Inputs:
    """Inputs of one call.

    Parameters
    ----------
    stream
        Of this call alone.
    shape
        Its sizes.
    first
        Whether the layer is its network's first: then x holds pixels, 0 to 255, else values between -1 and 1.
    """
    x = np.empty(int(np.prod(shape.data)), np.float32)
    stream.fill(x, "u1" if first else "<u2")
    if not first:
        x -= np.float32(32767.5)
        x *= _STEP
    k = stream.normal(int(np.prod(shape.weights))).astype(np.float32)
    return Inputs(x.reshape(shape.data), k.reshape(shape.weights))


def shuffled(stream: SecretStream, things) -> Tuple:
    """The things in a random order."""
    return tuple(things[int(index)] for index in np.argsort(stream.words(len(things)), kind="stable"))
