"""A user's own pictures as the network wants them: grey, light on dark, 28x28."""

from typing import Optional

import numpy as np

from ..errors import DataError

SIZE = 28  # pixels a side


def read(path: str, invert: Optional[bool] = None) -> np.ndarray:
    """Read a picture of any size.

    Transparent parts count as background; the picture is fitted into a square of its background's grey and reduced to
    28x28 (area-weighted, so that thin lines survive).

    Parameters
    ----------
    path
        A PNG, JPEG or other file that Pillow reads.
    invert
        Whether to swap light and dark. None: when the border is light, since Fashion-MNIST is light on black.

    Returns
    -------
    numpy.ndarray
        (1,28,28) uint8.

    Raises
    ------
    DataError
        When the file is missing or is no picture.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            picture.load()
            rgba = picture.convert("RGBA")
    except FileNotFoundError:
        raise DataError(f"no picture at {path}") from None
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} is not a picture that can be read ({' '.join(str(error).split())})") from None
    backdrop = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
    grey = np.asarray(Image.alpha_composite(backdrop, rgba).convert("L"))
    border = int(np.median(np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])))
    if invert or (invert is None and border > 127):
        grey, border = 255 - grey, 255 - border
    square = np.full((max(grey.shape), max(grey.shape)), border, np.uint8)
    top, left = ((square.shape[0] - extent) // 2 for extent in grey.shape)
    square[top : top + grey.shape[0], left : left + grey.shape[1]] = grey
    filters = Image.Resampling
    reduced = Image.fromarray(square).resize((SIZE, SIZE), filters.BOX if len(square) > SIZE else filters.BILINEAR)
    return np.asarray(reduced)[None]
