"""Generates fresh inputs for each call, from a secret that only the referee knows."""

import hashlib
import secrets
from typing import NamedTuple, Tuple

import numpy as np

from ...graph.shapes import ConvolutionShape

_BLOCK = 1 << 20  # number of bytes that are generated at a time; each block is the output of a separate hash
# Step between neighbours of the 65,536 values from -1 to 1. It is not a power of two, so that half precision cannot
# represent the values exactly, and sums of a few values are not exact either.
_STEP = np.float32(1 / 32768.9)


class Inputs(NamedTuple):
    """Data and weights of one call."""

    x: np.ndarray
    k: np.ndarray


class SecretStream:
    """A stream of random bytes, which are SHAKE128 of a key and a counter.

    A submission sees some of the bytes, as its inputs. It cannot compute the key or the other bytes from them.
    """

    def __init__(self, key: bytes):
        self._key, self._blocks = key, 0

    @classmethod
    def fresh(cls) -> "SecretStream":
        """Create a stream with a new random key."""
        return cls(secrets.token_bytes(32))

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        blocks = [self._block(min(_BLOCK, count - start)) for start in range(0, count, _BLOCK)]
        return b"".join(blocks)

    def words(self, count: int) -> np.ndarray:
        """Return the next `count` integers of 64 bits."""
        return np.frombuffer(self.take(8 * count), "<u8")

    def uniform(self, count: int) -> np.ndarray:
        """Return the next `count` float64 numbers, greater than 0 and at most 1."""
        return ((self.words(count) >> np.uint64(11)) + np.uint64(1)) * 2.0**-53

    def normal(self, count: int) -> np.ndarray:
        """Return the next `count` float64 numbers of a normal distribution."""
        half = -(-count // 2)
        radius, angle = np.sqrt(-2 * np.log(self.uniform(half))), 2 * np.pi * self.uniform(half)
        return np.r_[radius * np.cos(angle), radius * np.sin(angle)][:count]

    def fill(self, values: np.ndarray, dtype: str) -> None:
        """Fill a flat array with random numbers, which are the next bytes read as the unsigned type `dtype`."""
        size = _BLOCK // np.dtype(dtype).itemsize
        for start in range(0, len(values), size):
            piece = values[start : start + size]
            piece[...] = np.frombuffer(self._block(piece.size * np.dtype(dtype).itemsize), dtype)

    def _block(self, count: int) -> bytes:
        self._blocks += 1
        return hashlib.shake_128(self._key + self._blocks.to_bytes(8, "big")).digest(count)


class Seed(NamedTuple):
    """A secret of 128 bits, from which the inputs of all calls are derived. The verdict reveals it."""

    value: int

    @classmethod
    def fresh(cls) -> "Seed":
        """Create a seed that nobody can guess."""
        return cls(secrets.randbits(128))

    @property
    def hex(self) -> str:
        """The seed in hexadecimal, as verdicts contain it."""
        return f"{self.value:032x}"

    def stream(self, *numbers: int) -> SecretStream:
        """Return the stream of random bytes for one purpose, which the numbers identify.

        Each purpose has a separate key: BLAKE2b of the numbers, keyed with the secret.
        """
        purpose = ",".join(map(str, numbers)).encode()
        return SecretStream(hashlib.blake2b(purpose, digest_size=32, key=self.value.to_bytes(16, "big")).digest())


def fresh(stream: SecretStream, shape: ConvolutionShape, first: bool) -> Inputs:
    """Generate the inputs of one call.

    Parameters
    ----------
    stream
        Random stream that is used for this call only.
    shape
        Sizes of the call.
    first
        Whether the layer is the first of its network. If so, x holds pixels from 0 to 255, else values from -1 to 1.
    """
    x = np.empty(int(np.prod(shape.data)), np.float32)
    stream.fill(x, "u1" if first else "<u2")
    if not first:
        x -= np.float32(32767.5)
        x *= _STEP
    k = stream.normal(int(np.prod(shape.weights))).astype(np.float32)
    return Inputs(x.reshape(shape.data), k.reshape(shape.weights))


def shuffled(stream: SecretStream, things) -> Tuple:
    """Return the things in a random order."""
    return tuple(things[int(index)] for index in np.argsort(stream.words(len(things)), kind="stable"))
