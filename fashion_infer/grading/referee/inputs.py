"""Fresh inputs for every call, from a seed that only the referee has."""

import hashlib
import secrets
from typing import NamedTuple, Tuple

import numpy as np

from ...graph.shapes import ConvolutionShape


class Inputs(NamedTuple):
    """Data and weights of one call."""

    x: np.ndarray
    k: np.ndarray


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

    def generator(self, *numbers: int) -> np.random.Generator:
        """Random numbers for one purpose, which the numbers name.

        Each purpose has a key of its own: BLAKE2b of the numbers, keyed with the secret. A submission that recovers a
        generator's state from the inputs of one call learns neither the secret nor any other sequence: not the inputs
        of later calls, nor guard zones, signs, or the images that are compared.
        """
        purpose = ",".join(map(str, numbers)).encode()
        key = hashlib.blake2b(purpose, digest_size=32, key=self.value.to_bytes(16, "big")).digest()
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence(int.from_bytes(key, "big"))))


def fresh(rng: np.random.Generator, shape: ConvolutionShape, first: bool) -> Inputs:
    """Inputs of one call.

    Parameters
    ----------
    rng
        Of this call alone.
    shape
        Its sizes.
    first
        Whether the layer is its network's first: then x holds pixels, 0 to 255, else values between -1 and 1.
    """
    if first:
        x = rng.integers(0, 256, shape.data, dtype=np.uint8).astype(np.float32)
    else:
        x = rng.random(shape.data, dtype=np.float32)
        x *= 2
        x -= 1
    return Inputs(x, rng.standard_normal(shape.weights, dtype=np.float32))


def shuffled(rng: np.random.Generator, things) -> Tuple:
    """The things in a random order."""
    order = rng.permutation(len(things))
    return tuple(things[int(index)] for index in order)
