"""Converts your own pictures to the network's input, grey images of 28x28 pixels that are light on dark.

| mode of Pillow | grey level, from 0 (black) to 255 (white) |
| --- | --- |
| 1, L, P, RGB, CMYK, YCbCr, HSV and related | the luma of ITU-R BT.601, as in Pillow's mode L |
| I;16 in any byte order, I in a PNG or PPM | value / 257, because the values have 16 bits |
| I in another format | the value itself if no value is above 255, otherwise value / 257 |
| F | value * 255 if no value is above 1, otherwise the value itself, which must be at most 255 |
| LAB | refused |

Transparent parts get the grey of the picture's border. If most of the border is transparent, they become black if the
visible part of the picture is light, and white if it is dark, so that the visible part stands out.
"""

import contextlib
import io
import os
import warnings
from typing import BinaryIO, Callable, Optional, Tuple, Union

import numpy as np

from ..errors import DataError
from ..system import inputs
from ..system.text import one_line

SIZE = 28  # pixels per side
# Limits of a picture's number of pixels, and of its width and height in pixels. They are checked before decoding.
MOST_PIXELS, LONGEST_SIDE = 1 << 26, 1 << 14
MOST_BYTES = 1 << 30  # size limit of a file in bytes: MOST_PIXELS uncompressed pixels of four 32-bit floats
# Allowed formats. Some of Pillow's other formats start programs (Ghostscript for EPS) or cannot be decoded.
FORMATS = ("PNG", "JPEG", "MPO", "GIF", "BMP", "DIB", "TIFF", "WEBP", "AVIF", "JPEG2000", "PPM", "TGA", "ICO", "ICNS",
           "PCX", "QOI", "SGI", "XBM", "XPM", "PSD", "DDS")  # fmt: skip
_STRIP = 1 << 24  # number of pixels of the padded picture that are processed at a time
_SIXTEEN_BITS = ("PNG", "PPM")  # formats whose mode I has values of 16 bits
_FLOATS = 1 << 20  # number of pixels processed at a time as floats


def read(path: str, invert: Optional[bool] = None) -> np.ndarray:
    """Read a picture of any size as (1,28,28) uint8: rotated by EXIF, grey, padded to a square, and resized by areas.
    If `invert` is None, a picture with a light border is inverted: Fashion-MNIST's background is black."""
    check(path)
    return _input_of(_decoded(path, path), invert)


def check(path: str) -> None:
    try:
        os.stat(path)
    except FileNotFoundError:
        raise DataError(f"no picture at {path}") from None
    except (OSError, ValueError):
        pass  # check_readable reports it
    if inputs.check_readable(path) > MOST_BYTES:
        raise DataError(f"{path} is a file of more than {MOST_BYTES >> 20} MiB: reduce the picture first")


def of_bytes(content: bytes, name: str, invert: Optional[bool] = None) -> np.ndarray:
    return _input_of(_decoded(io.BytesIO(content), name), invert)


def _input_of(levels: np.ndarray, invert: Optional[bool]) -> np.ndarray:
    """Convert grey levels (h,w) to the network's input, (1,28,28) uint8; for `invert`, see `read`."""
    border = int(np.median(np.concatenate([levels[0], levels[-1], levels[:, 0], levels[:, -1]])))
    if invert or (invert is None and border > 127):
        levels, border = 255 - levels, 255 - border
    return _fitted(levels, border)[None]


def _decoded(file: Union[str, BinaryIO], path: str) -> np.ndarray:
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
                return levels(opened)
    except DataError:
        raise
    except UnknownScale as error:
        raise DataError(f"{path} cannot be converted to grey: {error}") from None
    except MemoryError:
        raise DataError(f"{path} is a picture too large for memory: reduce it first") from None
    except Exception as error:  # decoders raise any error for a damaged file: struct.error, ZeroDivisionError, ...
        raise DataError(f"{path} is not a readable picture ({one_line(error)})") from None


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
    """Return grey levels (h,w), padded to a square with the border's grey and resized to 28x28, strip by strip."""
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


class UnknownScale(ValueError):
    """Raised when it is not known which values of a picture mean black and white, or when no part of it is visible."""


def levels(picture) -> np.ndarray:
    """Return the grey levels of a PIL.Image.Image, (h,w) uint8; UnknownScale if its values fit no scale of its mode."""
    grey, alpha = _split(picture)
    return grey if alpha is None or alpha.min() == 255 else _filled(grey, alpha)


def _split(picture) -> Tuple[np.ndarray, Optional[np.ndarray]]:
    mode, info = picture.mode, picture.info
    if mode == "LAB":  # one of its bands is named A, like an alpha channel
        raise UnknownScale("it has LAB colours: convert it to RGB first")
    if mode.startswith("I") or mode == "F":
        values = np.asarray(picture)
        transparent = info.get("transparency")
        alpha = None if not isinstance(transparent, int) else np.where(values == transparent, 0, 255).astype(np.uint8)
        return _scaled(values, mode, picture.format), alpha
    if mode in ("La", "RGBa"):  # premultiplied
        picture = picture.convert("LA" if mode == "La" else "RGBA")
    if "A" in picture.getbands() or "transparency" in info:
        rgba = picture.convert("RGBA")
        return np.asarray(rgba.convert("RGB").convert("L")), np.asarray(rgba.getchannel("A"))
    if mode not in ("1", "L"):
        picture = picture.convert("RGB")
    return np.asarray(picture.convert("L")), None


def _scaled(values: np.ndarray, mode: str, format: Optional[str]) -> np.ndarray:
    if not np.isfinite(values).all():
        raise UnknownScale("it has values that are not finite")
    low, high = values.min(), values.max()
    if mode == "F":
        if low < 0 or high > 255:
            raise UnknownScale(f"its values are floats from {low:g} to {high:g}, not within 0 to 1 or 0 to 255")
        factor = 255.0 if high <= 1 else 1.0
    else:
        if low < 0 or high > 65535:
            raise UnknownScale(f"its values are integers from {low} to {high}, not within 0 to 65535")
        sixteen = mode != "I" or format in _SIXTEEN_BITS or high > 255
        factor = 1 / 257 if sixteen else 1.0
    return _by_strips(values.shape, lambda part: values[part] * np.float32(factor))


def _filled(grey: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    if not alpha.any():
        raise UnknownScale("it is fully transparent")
    edges = [(part[0], part[-1], part[:, 0], part[:, -1]) for part in (grey, alpha)]
    border, opacity = (np.concatenate(parts) for parts in edges)
    if np.median(opacity) > 127:
        ground = np.median(border[opacity > 127])
    else:
        visible = np.multiply(grey, alpha, dtype=np.uint16).sum(dtype=np.uint64) / alpha.sum(dtype=np.uint64)
        ground = 0.0 if visible > 127 else 255.0
    ground = np.float32(ground)
    return _by_strips(grey.shape, lambda part: ground + (grey[part] - ground) * (alpha[part] / np.float32(255)))


def _by_strips(shape: Tuple[int, ...], compute: Callable[[slice], np.ndarray]) -> np.ndarray:
    """Return grey levels (h,w) uint8. `compute` returns those of a slice of rows as floats, which need more memory."""
    found = np.empty(shape, np.uint8)
    rows = max(1, _FLOATS // shape[1])
    for start in range(0, shape[0], rows):
        part = slice(start, start + rows)
        found[part] = np.rint(compute(part))
    return found
