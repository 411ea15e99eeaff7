"""Stores resized images in the user's cache. Every file has a digest; `system.cache_limits` bounds the cache's size."""

import contextlib
import os
import sys
import zlib
from typing import Optional, Tuple

import numpy as np

from ..errors import DataError
from ..system import cache_limits, inputs
from ..system.files import replacing

# Size of the digest, a CRC-32, which detects damage. It need not resist forgery, because forging a file takes access to
# the user's account. It is faster than SHA-1 and BLAKE2b, and much faster than resizing the images again.
_DIGEST_BYTES = 4


def get(name: str, shape: Tuple[int, ...]) -> Optional[np.ndarray]:
    """Return the uint8 array cached under a name; None if there is none, or if its file is damaged.

    The digest is checked for the bytes that were read, so that later changes of the file have no effect.
    """
    place = cache_limits.folder(cache_limits.RESIZED)
    if place is None:
        return None
    path = place / name
    try:
        inputs.check(path)
        content = np.fromfile(path, np.uint8)
    except (OSError, DataError):
        return None
    end = len(content) - _DIGEST_BYTES
    begin = end - int(np.prod(shape))
    if begin < 0 or _digest(content[:end]) != content[end:].tobytes():
        print(f"fashion-infer: {path} was damaged: it is made again", file=sys.stderr)
        return None
    cache_limits.use(path)
    return content[begin:end].reshape(shape)


def put(name: str, array: np.ndarray) -> None:
    """Cache a uint8 array under a name, deleting the least recently used files for it; do nothing without space.

    The file is a .npy file followed by its digest. NumPy ignores the digest.
    """
    place = cache_limits.folder(cache_limits.RESIZED)
    if (
        place is None
        or array.nbytes > cache_limits.bound()
        or (os.path.exists(place / name) and not (place / name).is_file())
    ):
        return
    path = place / name
    cache_limits.make_room(array.nbytes + 200, path)
    with contextlib.suppress(OSError, DataError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, DataError, durable=False) as temporary:
            with open(temporary, "wb") as stream:
                np.save(stream, array)
            digest = _digest(np.fromfile(temporary, np.uint8))
            with open(temporary, "ab") as stream:
                stream.write(digest)


def _digest(content: np.ndarray) -> bytes:
    return zlib.crc32(content.data).to_bytes(_DIGEST_BYTES, "little")
