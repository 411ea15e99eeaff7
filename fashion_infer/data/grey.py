"""Converts a picture in any of Pillow's modes to grey levels from 0 (black) to 255 (white).

| mode | grey |
| --- | --- |
| 1, L, P, RGB, CMYK, YCbCr, HSV and related | the luma of ITU-R BT.601, as in Pillow's mode L |
| I;16 in any byte order, I in a PNG or PPM | value / 257, because the values have 16 bits |
| I in another format | the value itself if no value is above 255, otherwise value / 257 |
| F | value * 255 if no value is above 1, otherwise the value itself, which must be at most 255 |
| LAB | the luma of the sRGB colour; the white point is D50 |

Transparent parts get the grey of the picture's border. If most of the border is transparent, they become black if the
visible part of the picture is light, and white if it is dark, so that the visible part stands out.
"""

from typing import Callable, Optional, Tuple

import numpy as np

_SIXTEEN_BITS = ("PNG", "PPM")  # formats whose mode I has values of 16 bits
_LUMA = np.array([0.299, 0.587, 0.114])
# Matrix from CIE XYZ with white point D50 to linear sRGB, adapted by Bradford's method; and the white point D50.
_XYZ_TO_RGB = np.array(
    [[3.1338561, -1.6168667, -0.4906146], [-0.9787684, 1.9161415, 0.0334540], [0.0719453, -0.2289914, 1.4052427]]
)
_D50 = np.array([0.96422, 1.0, 0.82521])
_STRIP = 1 << 20  # number of pixels processed at a time as floats


class UnknownScale(ValueError):
    """Raised when it is not known which values of a picture mean black and white, or when no part of it is visible."""


def levels(picture) -> np.ndarray:
    """Return the grey levels of a PIL.Image.Image, (h,w) uint8; UnknownScale if its values fit no scale of its mode."""
    grey, alpha = _split(picture)
    return grey if alpha is None or alpha.min() == 255 else _filled(grey, alpha)


def _split(picture) -> Tuple[np.ndarray, Optional[np.ndarray]]:
    """Return the grey levels and, if the picture has transparency, the opacity (else None); both (h,w) uint8."""
    mode, info = picture.mode, picture.info
    if mode.startswith("I") or mode == "F":
        values = np.asarray(picture)
        transparent = info.get("transparency")
        alpha = None if not isinstance(transparent, int) else np.where(values == transparent, 0, 255).astype(np.uint8)
        return _scaled(values, mode, picture.format), alpha
    if mode == "LAB":
        return _lab_levels(np.asarray(picture)), None
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


def _lab_levels(lab: np.ndarray) -> np.ndarray:
    """Return the grey levels of a LAB picture, (h,w,3) uint8: L is 0 to 255 for 0 to 100; a and b are signed bytes."""

    def levels_of(part: slice) -> np.ndarray:
        lightness = lab[part][..., 0] * (100 / 255)
        a, b = (lab[part][..., index].astype(np.int8).astype(float) for index in (1, 2))
        middle = (lightness + 16) / 116
        ratios = np.stack([middle + a / 500, middle, middle - b / 200], axis=-1)
        xyz = np.where(ratios > 6 / 29, ratios**3, 3 * (6 / 29) ** 2 * (ratios - 4 / 29)) * _D50
        linear = np.clip(xyz @ _XYZ_TO_RGB.T, 0, 1)
        rgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
        return 255 * (rgb @ _LUMA)

    return _by_strips(lab.shape[:2], levels_of)


def _filled(grey: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return the grey levels with transparent parts filled, as the module's docstring describes."""
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
    rows = max(1, _STRIP // shape[1])
    for start in range(0, shape[0], rows):
        part = slice(start, start + rows)
        found[part] = np.rint(compute(part))
    return found
