"""Resizes square images to an edition's input size, with exactly the course's arithmetic, and caches the results.

That is bilinear interpolation in float64 of pixels / 256, truncated after multiplication by 256. The operations have
the same order as in scikit-image's `warp` (order 1, mode constant, cval 0): in another order, a rounding error would
lower pixels whose exact value is an integer. Pillow and OpenCV use other orders; scikit-image may change its own.
"""

import contextlib
import os
import sys
import zlib
from typing import Optional, Tuple

import numpy as np

from ..errors import DataError, UsageError
from ..system import cache_limits, inputs
from ..system.files import replacing

# Number of images processed at a time: 250 images of 70x70 pixels are 10 MB of float64, which fits in the caches.
_SLICE = 250
# Size of the digest. It is a CRC-32, which detects damage. It need not detect forgery, because forging a file
# takes access to the user's account. It takes less time than SHA-1 or BLAKE2b, and much less than resizing the images.
_DIGEST_BYTES = 4


def resize(images: np.ndarray, size: int) -> np.ndarray:
    """Return images (n,1,s,s) uint8 as (n,1,size,size) uint8; UsageError for a wrong shape or a size out of range."""
    given = images.shape[-1]
    if images.ndim != 4 or images.shape[1] != 1 or images.shape[2] != given:
        raise UsageError(f"images must have shape (n, 1, s, s), not {images.shape}")
    check_size(size)
    if size == given:
        return images
    out = np.empty((len(images), 1, size, size), np.uint8)
    for start in range(0, len(images), _SLICE):
        part = slice(start, start + _SLICE)
        out[part, 0] = _resize(images[part, 0], size)
    return out


def check_size(size: int) -> None:
    if not 2 <= size <= 4096:
        raise UsageError(f"the input size must be 2 to 4096 pixels, not {size}")


def _resize(images: np.ndarray, size: int) -> np.ndarray:
    given = images.shape[-1]
    scale = given / size
    source = scale * np.arange(size) + (0.5 * scale - 0.5)
    low = np.floor(source).astype(int)
    high = np.ceil(source).astype(int)
    fraction = source - low
    padded = np.zeros((len(images), given + 2, given + 2))  # the border of zeros stands for all outside pixels
    padded[:, 1:-1, 1:-1] = images / 256.0
    low, high = np.clip(low, -1, given) + 1, np.clip(high, -1, given) + 1

    along = (1 - fraction) * padded[:, :, low] + fraction * padded[:, :, high]
    down = fraction[:, None]
    out = (1 - down) * along[:, low] + down * along[:, high]
    # As `warp` does, clip values that rounding errors moved out of the input's range.
    flat = images.reshape(len(images), -1)
    lowest, highest = (limit[:, None, None] / 256.0 for limit in (flat.min(axis=1), flat.max(axis=1)))
    outside_used = out.min(axis=(1, 2), keepdims=True) <= 0
    lowest = np.where(outside_used, 0.0, lowest)
    np.clip(out, lowest, highest, out=out)
    out *= 256
    return out.astype(np.uint8)


def cached(name: str, shape: Tuple[int, ...]) -> Optional[np.ndarray]:
    """Return the uint8 array that was cached under a name; None if there is no such file, or if the file is damaged."""
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


def cache(name: str, array: np.ndarray) -> None:
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
