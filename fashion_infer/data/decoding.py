"""Pictures from outside, decoded in one child process for all of them, with limits of time and memory.

Pillow decodes with some twenty C libraries. What one of them does over a picture made for it, a crash or
a loop without end, is one line here. In the child a picture may take
  - 60 s of processor time (a PNG of 67 megapixels, the most that are taken, takes 2, a JPEG 2000 of 17 takes 4);
  - 4 GiB of address space (it takes 0.9, and decoders that start a thread for each core reserve 8 MB for each);
  - no file but itself, and none to write.
The price is the start of Python, NumPy and Pillow, 0.25 s a command.
"""

import io
import json
import sys
from typing import List, Optional, Sequence, Tuple

import numpy as np

from ..errors import DataError
from ..system import confinement
from . import pictures

_CPU_SECONDS, _SECONDS = 60, 60.0
_MEMORY = 4 << 30
_CHILD = confinement.code(f"{__package__}.decoding")
_PIXELS = pictures.SIZE**2


def read(paths: Sequence[str], invert: Optional[bool] = None) -> np.ndarray:
    """Read pictures as `pictures.read` does, whatever the files hold.

    Returns
    -------
    numpy.ndarray
        (n,1,28,28) uint8.

    Raises
    ------
    DataError
        For the first that is missing or no picture, is too large, or cannot be decoded within the limits.
    """
    for path in paths:
        pictures.check(path)
    words = [str(_CPU_SECONDS), json.dumps(invert)]
    done = confinement.run(_CHILD, words, _SECONDS + _CPU_SECONDS * len(paths), {}, json.dumps(list(paths)).encode())
    found, error = _unpack(done.out)
    if error:
        raise DataError(error)
    if len(found) == len(paths):
        return np.stack(found)
    path = paths[len(found)]
    if done.why == "processor time":
        raise DataError(f"{path} is not a picture that can be read ({_CPU_SECONDS} s were not enough to decode it)")
    if done.why == "time":
        raise DataError(f"{path} could not be read in time: it is damaged, or the disk is slow")
    if done.why:
        raise DataError(f"cannot start a process to read {path}: {done.why}")
    raise DataError(f"{path} is not a picture that can be read (its decoder died of it)")


def child(cpu_seconds: str, invert: str) -> None:
    """What the child does: read the pictures that stdin names, and write each to stdout as 28x28 bytes behind a dot, or
    what is wrong with it behind an exclamation mark."""
    paths, out = json.load(sys.stdin), sys.stdout.buffer
    _rehearse()
    confinement.limit(_MEMORY, files=2)  # some decoders open the file again
    for path in paths:
        confinement.limit_time(int(cpu_seconds))
        try:
            out.write(b"." + pictures.read(path, json.loads(invert)).tobytes())
        except DataError as error:
            out.write(b"!" + json.dumps(str(error)).encode())
            return
        finally:
            out.flush()


def _rehearse() -> None:
    """Decode a picture of each format: what Python imports for that, it could not open any more."""
    from PIL import Image

    Image.init()
    for format in pictures.FORMATS:
        content = io.BytesIO()
        try:
            Image.new("L", (32, 32)).save(content, format)
            Image.open(content).load()
        except (KeyError, OSError, ValueError):  # one that Pillow only reads, or cannot keep a grey picture in
            continue


def _unpack(content: bytes) -> Tuple[List[np.ndarray], str]:
    """What the child wrote: pictures, and what is wrong with the next one."""
    found, at = [], 0
    while content[at : at + 1] == b"." and len(content) - at > _PIXELS:
        found.append(np.frombuffer(content, np.uint8, _PIXELS, at + 1).reshape(1, pictures.SIZE, pictures.SIZE))
        at += 1 + _PIXELS
    try:
        return found, str(json.loads(content[at + 1 :])) if content[at : at + 1] == b"!" else ""
    except ValueError:
        return found, ""
