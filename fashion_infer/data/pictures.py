"""A user's own pictures as the network wants them: grey, light on dark, 28x28."""

import contextlib
import io
import os
import warnings
from typing import BinaryIO, Optional, Union

import numpy as np

from ..errors import DataError
from ..system import inputs
from . import grey

SIZE = 28  # pixels a side
# Checked before a picture is decoded. 50-megapixel photographs and panoramas of 16,382 pixels pass.
MOST_PIXELS, LONGEST_SIDE = 1 << 26, 1 << 14
MOST_BYTES = 1 << 30  # of a file: 67,108,864 pixels of four 32-bit floats, plain
# What pictures come in. Pillow knows more, some of which starts programs (Ghostscript for EPS) or has no decoder.
FORMATS = ("PNG", "JPEG", "MPO", "GIF", "BMP", "DIB", "TIFF", "WEBP", "AVIF", "JPEG2000", "PPM", "TGA", "ICO", "ICNS",
           "PCX", "QOI", "SGI", "XBM", "XPM", "PSD", "DDS")  # fmt: skip
_STRIP = 1 << 24  # pixels of the widened picture worked on at a time


def read(path: str, invert: Optional[bool] = None) -> np.ndarray:
    """Read a picture of any size.

    It is turned as its EXIF orientation says, made grey (`grey.levels`), fitted into a square of its border's grey, and
    reduced to 28x28 (area-weighted, so that thin lines survive).

    Parameters
    ----------
    path
        A PNG, JPEG or other file that Pillow reads; of an animation the first frame counts.
    invert
        Whether to swap light and dark. None: when the border is light, since Fashion-MNIST is light on black.

    Returns
    -------
    numpy.ndarray
        (1,28,28) uint8.

    Raises
    ------
    DataError
        When the file is missing or is no picture, is too large, or its values do not tell how light they are.
    """
    check(path)
    return _seen(_decoded(path, path), invert)


def check(path: str) -> None:
    """Raise DataError when there is no file that can be opened at a path, or one too large for a picture."""
    try:
        os.stat(path)
    except FileNotFoundError:
        raise DataError(f"no picture at {path}") from None
    except (OSError, ValueError):
        pass  # of which the next line speaks
    if inputs.check_readable(path) > MOST_BYTES:
        raise DataError(f"{path} is a file of more than {MOST_BYTES >> 20} MiB: reduce the picture first")


def of_bytes(content: bytes, name: str, invert: Optional[bool] = None) -> np.ndarray:
    """The same of a picture's file that is in memory already; `name` is what messages call it."""
    return _seen(_decoded(io.BytesIO(content), name), invert)


def _seen(levels: np.ndarray, invert: Optional[bool]) -> np.ndarray:
    """Grey levels (h,w) as the network sees them, (1,28,28)."""
    border = int(np.median(np.concatenate([levels[0], levels[-1], levels[:, 0], levels[:, -1]])))
    if invert or (invert is None and border > 127):
        levels, border = 255 - levels, 255 - border
    return _fitted(levels, border)[None]


def _decoded(file: Union[str, BinaryIO], path: str) -> np.ndarray:
    """The picture's grey levels, (h,w) uint8; `path` is for messages."""
    from PIL import Image, ImageOps

    Image.init()
    known = [name for name in FORMATS if name in Image.OPEN]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of damaged metadata, and of sizes that are checked here
            with Image.open(file, formats=known) as opened:
                _check_size(path, opened.size)
                opened.load()
                _check_size(path, opened.size)  # some formats know it only now
                with contextlib.suppress(Exception):  # damaged EXIF turns nothing: viewers show the picture as it is
                    ImageOps.exif_transpose(opened, in_place=True)
                return grey.levels(opened)
    except DataError:
        raise
    except grey.UnknownScale as error:
        raise DataError(f"{path} cannot be shown in grey: {error}") from None
    except MemoryError:
        raise DataError(f"{path} is a picture too large for the memory: reduce it first") from None
    except Exception as error:  # decoders raise anything over a damaged file: struct.error, ZeroDivisionError, ...
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path} is not a picture that can be read ({reason})") from None


def _check_size(path: str, size) -> None:
    width, height = size
    if width * height > MOST_PIXELS or max(size) > LONGEST_SIDE:
        raise DataError(
            f"{path} is a picture of {width} x {height} pixels: reduce it first, to at most {LONGEST_SIDE:,} a side "
            f"and {MOST_PIXELS:,} in all"
        )
    if not width * height:
        raise DataError(f"{path} is a picture without a pixel")


def _fitted(levels: np.ndarray, border: int) -> np.ndarray:
    """Grey levels (h,w) in the middle of a square of the border's grey, reduced to 28x28.

    As Pillow resizes such a square, first along its rows and then along its columns. The square itself is never made:
    it has the square of the longer side in pixels, however thin the picture.
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
