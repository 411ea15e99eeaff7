"""Decodes untrusted pictures in one child process, with limits on time and memory.

Pillow decodes with some twenty C libraries. If a malicious picture makes one of them crash or loop forever, the user
gets a one-line error. In the child process, the decoder of a picture may use
  - 60 s of processor time (a PNG of 67 megapixels, the largest allowed, takes 2 s; a JPEG 2000 of 17 megapixels 4 s);
  - 4 GiB of address space (the same PNG takes 0.9 GiB; decoders with a thread per core reserve 8 MB for each thread);
  - no file except the picture's, and no file for writing.
The cost is starting Python, NumPy and Pillow once per command.
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
    """Read pictures as `pictures.read` does, safely for any file content.

    Returns
    -------
    numpy.ndarray
        (n,1,28,28) uint8.

    Raises
    ------
    DataError
        For the first file that is missing, not a picture, too large, or cannot be decoded within the limits.
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
        raise DataError(f"{path} is not a readable picture (decoding took more than {_CPU_SECONDS} s)")
    if done.why == "time":
        raise DataError(f"{path} could not be read in time: it is damaged, or the disk is slow")
    if done.why:
        raise DataError(f"cannot start a process to read {path}: {done.why}")
    raise DataError(f"{path} is not a readable picture (its decoder crashed)")


def child(cpu_seconds: str, invert: str) -> None:
    """Main function of the child: read the pictures whose paths stdin lists, and write them to stdout.

    The output for each picture is a dot and 28x28 bytes, or an exclamation mark and an error message.
    """
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
    """Decode a picture of each format, so that Python imports all modules while it may still open files."""
    from PIL import Image

    Image.init()
    for format in pictures.FORMATS:
        content = io.BytesIO()
        try:
            Image.new("L", (32, 32)).save(content, format)
            Image.open(content).load()
        except (KeyError, OSError, ValueError):  # a format that Pillow cannot write, or not in grey
            continue


def _unpack(content: bytes) -> Tuple[List[np.ndarray], str]:
    """Parse the child's output: the decoded pictures, and the error of the first picture that was not decoded."""
    found, at = [], 0
    while content[at : at + 1] == b"." and len(content) - at > _PIXELS:
        found.append(np.frombuffer(content, np.uint8, _PIXELS, at + 1).reshape(1, pictures.SIZE, pictures.SIZE))
        at += 1 + _PIXELS
    try:
        return found, str(json.loads(content[at + 1 :])) if content[at : at + 1] == b"!" else ""
    except ValueError:
        return found, ""
