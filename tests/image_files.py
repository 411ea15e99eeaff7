"""The contents of files of images and labels, from arrays."""

import io
import struct
import zlib

import numpy as np


def idx(array):
    """Return an IDX file: two zeros, 8 for unsigned bytes, the number of dimensions, big-endian sizes, and the data."""
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return head + np.ascontiguousarray(array, np.uint8).tobytes()


def npy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def grey_png(values):
    """Return a PNG with 8 or 16 bits per pixel, as the array has them."""
    rows = b"".join(b"\0" + row.astype(values.dtype.newbyteorder(">")).tobytes() for row in values)
    return png(*reversed(values.shape), 8 * values.dtype.itemsize, rows)


def png(width, height, bits=1, rows=None):
    """Return a grey PNG; `rows` are its rows of pixels, each after a zero byte, by default black ones."""
    rows = rows or (b"\0" + bytes(-(-width * bits // 8))) * height

    def chunk(kind, part):
        return struct.pack(">I", len(part)) + kind + part + struct.pack(">I", zlib.crc32(kind + part))

    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
