"""Converts your own pictures to the network's input, grey images of 28x28 pixels that are light on dark."""

import contextlib
import io
import os
import warnings
from typing import BinaryIO, Optional, Union

import numpy as np

from ..errors import DataError
from ..system import inputs
from . import grey

SIZE = 28  # pixels per side
# Limits of a picture's number of pixels, and of its width and height in pixels. They are checked before decoding.
MOST_PIXELS, LONGEST_SIDE = 1 << 26, 1 << 14
MOST_BYTES = 1 << 30  # size limit of a file in bytes: MOST_PIXELS uncompressed pixels of four 32-bit floats
# Allowed formats. Some of Pillow's other formats start programs (Ghostscript for EPS) or cannot be decoded.
FORMATS = ("PNG", "JPEG", "MPO", "GIF", "BMP", "DIB", "TIFF", "WEBP", "AVIF", "JPEG2000", "PPM", "TGA", "ICO", "ICNS",
           "PCX", "QOI", "SGI", "XBM", "XPM", "PSD", "DDS")  # fmt: skip
_STRIP = 1 << 24  # number of pixels of the padded picture that are processed at a time


def read(path: str, invert: Optional[bool] = None) -> np.ndarray:
    """Read a picture of any size as (1,28,28) uint8: rotated by EXIF, grey, padded to a square, and resized.

    Each pixel is the mean of the area that it covers, so that thin lines remain visible. If `invert` is None, a picture
    with a light border is inverted: Fashion-MNIST's background is black. Only an animation's first frame is used.
    """
    check(path)
    return _input_of(_decoded(path, path), invert)


def check(path: str) -> None:
    """Raise DataError if the file at `path` cannot be opened, or is larger than `MOST_BYTES`."""
    try:
        os.stat(path)
    except FileNotFoundError:
        raise DataError(f"no picture at {path}") from None
    except (OSError, ValueError):
        pass  # check_readable reports it
    if inputs.check_readable(path) > MOST_BYTES:
        raise DataError(f"{path} is a file of more than {MOST_BYTES >> 20} MiB: reduce the picture first")


def of_bytes(content: bytes, name: str, invert: Optional[bool] = None) -> np.ndarray:
    """Read a picture from the bytes of its file; `name` is the file's name in error messages."""
    return _input_of(_decoded(io.BytesIO(content), name), invert)


def _input_of(levels: np.ndarray, invert: Optional[bool]) -> np.ndarray:
    """Convert grey levels (h,w) to the network's input, (1,28,28) uint8; for `invert`, see `read`."""
    border = int(np.median(np.concatenate([levels[0], levels[-1], levels[:, 0], levels[:, -1]])))
    if invert or (invert is None and border > 127):
        levels, border = 255 - levels, 255 - border
    return _fitted(levels, border)[None]


def _decoded(file: Union[str, BinaryIO], path: str) -> np.ndarray:
    """Decode a picture to grey levels, (h,w) uint8; `path` is for error messages."""
    from PIL import Image, ImageOps

    Image.init()
    known = [name for name in FORMATS if name in Image.OPEN]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about damaged metadata and about large pictures; sizes are checked here
            with Image.open(file, formats=known) as opened:
                _check_size(path, opened.size)
                opened.load()
                _check_size(path, opened.size)  # in some formats the size is known only after decoding
                with contextlib.suppress(Exception):  # damaged EXIF data is ignored, as viewers do
                    ImageOps.exif_transpose(opened, in_place=True)
                return grey.levels(opened)
    except DataError:
        raise
    except grey.UnknownScale as error:
        raise DataError(f"{path} cannot be converted to grey: {error}") from None
    except MemoryError:
        raise DataError(f"{path} is a picture too large for memory: reduce it first") from None
    except Exception as error:  # decoders raise any error for a damaged file: struct.error, ZeroDivisionError, ...
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} is not a readable picture ({reason})") from None


def _check_size(path: str, size) -> None:
    width, height = size
    if width * height > MOST_PIXELS or max(size) > LONGEST_SIDE:
        raise DataError(
            f"{path} is a picture of {width} x {height} pixels: reduce it first, to at most {LONGEST_SIDE:,} per side "
            f"and {MOST_PIXELS:,} in all"
        )
    if not width * height:
        raise DataError(f"{path} is a picture without pixels")


def _fitted(levels: np.ndarray, border: int) -> np.ndarray:
    """Return grey levels (h,w), padded to a square with the border's grey and resized to 28x28.

    The square is never in memory, because it would be very large for a long, thin picture.
    """
    from PIL import Image

    height, width = levels.shape
    side = max(height, width)
    method = Image.Resampling.BOX if side > SIZE else Image.Resampling.BILINEAR
    top, left = (side - height) // 2, (side - width) // 2
    rows = np.full((side, SIZE), border, np.uint8)
    strip = max(1, _STRIP // side)
    for start in range(0, height, strip):
        part = levels[start : start + strip]
        wide = np.full((len(part), side), border, np.uint8)
        wide[:, left : left + width] = part
        rows[top + start : top + start + len(part)] = Image.fromarray(wide).resize((SIZE, len(part)), method)
    return np.asarray(Image.fromarray(rows).resize((SIZE, SIZE), method))
