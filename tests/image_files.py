"""The contents of files of images and labels, from arrays."""

import io
import struct

import numpy as np


def idx(array):
    """Return an IDX file as the format's page defines it.

    It has two zero bytes, 8 for unsigned bytes, the number of dimensions, the sizes in big-endian order, and the data.
    """
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return head + np.ascontiguousarray(array, np.uint8).tobytes()


def npy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()
