"""Creates the things that the tries in files.txt name as {NAME}: devices, pictures, custom datasets and prefixes.

things.py creates {fifo}, {missing}, {long}, {loop}, {text}, {empty} and {folder}.
"""

import contextlib
import gzip
import io
import os
import socket
import stat
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

NODES = {"null-node": 3, "full-node": 7}  # character devices and their minor numbers
_ZEROS = gzip.compress(bytes(1 << 20))  # a gzip file may consist of several members in a row


def _png(width, height, bits=1, rows=None):
    rows = rows or (b"\0" + bytes(-(-width * bits // 8))) * height

    def chunk(kind, part):
        return struct.pack(">I", len(part)) + kind + part + struct.pack(">I", zlib.crc32(kind + part))

    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def _idx(array):
    array = np.asarray(array, np.uint8)
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def _npy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def make(folder: Path) -> None:
    at = lambda name: Path(folder) / name  # noqa: E731
    for name, minor in NODES.items():
        with contextlib.suppress(PermissionError):  # users who may not create devices skip the tries that need them
            os.mknod(at(name), stat.S_IFCHR | 0o666, os.makedev(1, minor))
    at("link-to-null-node").symlink_to("null-node")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(at("socket")))
    at("sparse").touch()
    os.truncate(at("sparse"), 1 << 40)
    # Pictures.
    at("wide.png").write_bytes(_png(60_000, 1))  # 87 bytes
    at("tall.png").write_bytes(_png(1, 60_000))
    at("bomb.png").write_bytes(_png(9500, 9500))  # Pillow warns at this size
    at("larger-bomb.png").write_bytes(_png(16_000, 16_000))  # Pillow refuses this size
    at("broken.wmf").write_bytes(b"\xd7\xcd\xc6\x9a" + bytes(36))
    at("broken.avif").write_bytes(b"\0\0\0\x1cftypavif" + bytes(80))
    at("program.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(touched) (w) file\n")
    Image.new("RGBA", (20, 20), (9, 9, 9, 0)).save(at("transparent.png"))
    Image.fromarray(np.array([[0, 300.0]], np.float32)).save(at("floats.tiff"))
    Image.fromarray(np.array([[np.nan, 1]], np.float32)).save(at("nan.tiff"))
    Image.new("L", (28, 28), 0).save(at("good.png"))
    # Custom datasets: files of images and of labels.
    at("own-images").write_bytes(_idx(np.zeros((20, 28, 28))))
    at("own-labels").write_bytes(_idx(np.arange(20) % 10))
    at("own-11-classes").write_bytes(_idx(np.arange(20) % 11))
    at("own-19-labels").write_bytes(_idx(np.zeros(19)))
    at("own-none").write_bytes(_idx(np.zeros((0, 28, 28))))
    at("own-not-square").write_bytes(_idx(np.zeros((20, 28, 20))))
    at("own-huge").write_bytes(struct.pack(">IIII", 2051, 2**31, 2**10, 2**10))
    at("own-bomb.gz").write_bytes(gzip.compress(_idx(np.zeros((20, 28, 28)))) + 1024 * _ZEROS)
    np.save(at("own-floats.npy"), np.zeros((20, 28, 28)))
    np.save(at("own-objects.npy"), np.array([{}], object))
    np.save(at("own-colours.npy"), np.zeros((20, 28, 28, 3), np.uint8))
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1048576, 1024, 1024), }"
    at("own-claims.npy").write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", 118) + header.ljust(117) + b"\n")
    with zipfile.ZipFile(at("own-zip-bomb.npz"), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", _npy(np.zeros((20, 28, 28), np.uint8)) + bytes(32 << 20))
    # Files with the names that both MNIST and Fashion-MNIST use. `data fetch --to {mnist}` must not change them.
    for name in ("mnist", "own", "fifo-dataset", "folder-dataset", "sparse-dataset"):
        at(name).mkdir()
    for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
        content = _idx(np.zeros((20, 28, 28) if "images" in name else 20))
        (at("mnist") / name).write_bytes(gzip.compress(content))
        os.mkfifo(at("fifo-dataset") / name)
        (at("folder-dataset") / name).mkdir()
        (at("sparse-dataset") / name).touch()
        os.truncate(at("sparse-dataset") / name, 1 << 40)
    np.savez(at("own") / "a.npz", images=np.zeros((20, 28, 28), np.uint8), labels=np.arange(20) % 10)
    # For the checkpoint PREFIX {blocked}: its second file cannot be written.
    (at("blocked-0001.params")).mkdir()
