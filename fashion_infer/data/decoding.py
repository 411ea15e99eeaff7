"""Decodes untrusted pictures in a child process with limits on time, memory and open files.

If a picture makes one of Pillow's C libraries crash or loop forever, only the child ends. All pictures of a command are
decoded in one child, so that Python, NumPy and Pillow start only one more time.
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
    """Read pictures as `pictures.read` does, (n,1,28,28) uint8, but in a child; DataError also for exceeded limits."""
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
    """Main function of the child: for each path of the JSON list on stdin, write a picture or the first error."""
    paths, out = json.load(sys.stdin), sys.stdout.buffer
    _rehearse()
    confinement.limit(_MEMORY, files=2)  # two, because some decoders open the picture's file again
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
    """Decode a picture of each format, so that Python imports all decoders before the open files are limited."""
    from PIL import Image

    Image.init()
    for format in pictures.FORMATS:
        content = io.BytesIO()
        try:
            Image.new("L", (32, 32)).save(content, format)
            Image.open(content).load()
        except (KeyError, OSError, ValueError):  # Pillow cannot write this format, or cannot write grey pictures in it
            continue


def _unpack(content: bytes) -> Tuple[List[np.ndarray], str]:
    found, at = [], 0
    while content[at : at + 1] == b"." and len(content) - at > _PIXELS:
        found.append(np.frombuffer(content, np.uint8, _PIXELS, at + 1).reshape(1, pictures.SIZE, pictures.SIZE))
        at += 1 + _PIXELS
    try:
        return found, str(json.loads(content[at + 1 :])) if content[at : at + 1] == b"!" else ""
    except ValueError:
        return found, ""
