"""Caches resized images in files, each with a digest of its content. `system.cache_limits` limits the cache's size."""

import contextlib
import os
import sys
import zlib
from typing import Optional, Tuple

import numpy as np

from ..errors import DataError
from ..system import cache_limits, inputs
from ..system.files import replacing

# Size of the digest. It is a CRC-32, which detects damage. It need not detect forgery, because forging a file
# takes access to the user's account. It takes less time than SHA-1 or BLAKE2b, and much less than resizing the images.
_DIGEST_BYTES = 4


def get(name: str, shape: Tuple[int, ...]) -> Optional[np.ndarray]:
    """Return the uint8 array that was cached under a name; None if there is no such file, or if the file is damaged.

    The array consists of the bytes whose digest was checked; a later change of the file does not change it.
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
        print(f"fashion-infer: {path} is damaged: the images are resized again", file=sys.stderr)
        return None
    cache_limits.use(path)
    return content[begin:end].reshape(shape)


def put(name: str, array: np.ndarray) -> None:
    """Cache a uint8 array under a name, as a .npy file followed by its digest; do nothing if that fails."""
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
