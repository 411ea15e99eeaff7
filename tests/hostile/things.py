"""Creates the things that tries name as `{NAME}`: files and folders, some of them with hostile names or contents."""

import contextlib
import gzip
import json
import os
import shutil
import socket
import stat
import struct
import zipfile
from pathlib import Path

import hostile_checkpoints
import image_files
import numpy as np
from PIL import Image

ESCAPE = "\x1b]0;owned\x07\x1b[31m"  # would set a terminal's title and colour
NAMES = {
    "missing": "missing",
    "long": "l" * 300,  # longer than the 255 bytes that a name may have
    "deep": "/".join(["d" * 200] * 25),  # longer than the 4096 bytes that a path may have
    "newline": "new\nline",
    "escape": f"esc{ESCAPE}ape",
    "latin": os.fsdecode(b"caf\xe9"),
    "bidi": "a\u202egnp.exe",
    "loop-file": "loop/x",
    "below-file": "text/x",
    "unsearchable-file": "unsearchable/x.h5",
}


def path(folder: Path, name: str) -> str:
    """Return the path of the thing called `name`. Some things do not exist: their names are enough for a try."""
    return os.path.join(str(folder), NAMES.get(name, name))


def make(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    at = lambda name: path(folder, name)  # noqa: E731
    os.symlink("loop", at("loop"))
    os.symlink("nowhere", at("dangling"))
    os.mkfifo(at("fifo"))
    for name in ("folder", "unsearchable", "unreadable-folder", "readonly"):
        os.mkdir(at(name))
    contents = {
        "empty": b"",
        "text": b"plain text\n",
        "bytes": bytes(range(256)) * 16,
        "zeros": bytes(4096),
        "unreadable": b"secret\n",
        "empty-list.json": b"[]",
        "number.json": b"1e400",
        "deep.json": b"[" * 100_000,
        "not-utf8.json": b'{"a": "\xff"}',
        "nan.json": b'{"kind": NaN}',
        "empty.gz": gzip.compress(b""),
    }
    for name, content in contents.items():
        Path(at(name)).write_bytes(content)
    for name in ("newline", "escape", "latin", "bidi"):
        Path(at(name)).write_bytes(b"not a checkpoint")
        Path(at(name) + ".png").write_bytes(b"not a picture")
        os.mkdir(at(name) + ".d")
    Path(at("unsearchable"), "x.h5").write_bytes(b"")
    os.chmod(at("unsearchable"), 0o600)
    os.chmod(at("unreadable"), 0)
    os.chmod(at("unreadable-folder"), 0o300)
    os.chmod(at("readonly"), 0o500)
    for name, (magic, shape, count) in _IDX.items():
        _dataset(Path(at(name)), magic, shape, count)
    _network(folder)
    _files(folder)
    hostile_checkpoints.make(folder)


# Name: (magic number, shape, number of data bytes) of a damaged file of images.
_IDX = {
    "data-magic": (1234, (10, 28, 28), 7840),
    "data-short": (2051, (10, 28, 28), 100),
    "data-huge": (2051, (2**31, 2**16, 2**16), 10),
}


def _dataset(folder: Path, magic: int, shape, count: int) -> None:
    folder.mkdir()
    header = struct.pack(f">{1 + len(shape)}I", magic, *shape)
    for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
        (folder / name).write_bytes(gzip.compress(header + bytes(count)))


def _network(folder: Path) -> None:
    """Write a valid checkpoint, fa2017's network with random weights, under several names, some of them hostile."""
    from fashion_infer.checkpoints import editions, hdf5

    edition = editions.get("fa2017")
    found = hostile_checkpoints.network(layers=edition.layers, shape=edition.shape)
    largest = found.weights["fullyconnected0_weight"]
    largest[:] = largest[:1]  # equal rows, so that the file is small
    whole = path(folder, "whole") + ".h5"
    hdf5.save(whole, found._replace(attributes={"edition": "fa2017"}))
    for name in ("newline", "escape", "latin"):
        shutil.copy(whole, path(folder, name) + ".h5")
    Path(path(folder, "whole-symbol.json")).write_text(json.dumps(json.loads(found.symbol)), encoding="utf-8")


NODES = {"null-node": 3, "full-node": 7}  # character devices and their minor numbers
_ZEROS = gzip.compress(bytes(1 << 20))  # a gzip file may consist of several members in a row


def _files(folder: Path) -> None:
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
    at("wide.png").write_bytes(image_files.png(60_000, 1))  # 87 bytes
    at("tall.png").write_bytes(image_files.png(1, 60_000))
    at("bomb.png").write_bytes(image_files.png(9500, 9500))  # Pillow warns at this size
    at("larger-bomb.png").write_bytes(image_files.png(16_000, 16_000))  # Pillow refuses this size
    at("broken.wmf").write_bytes(b"\xd7\xcd\xc6\x9a" + bytes(36))
    at("broken.avif").write_bytes(b"\0\0\0\x1cftypavif" + bytes(80))
    at("program.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(touched) (w) file\n")
    Image.new("RGBA", (20, 20), (9, 9, 9, 0)).save(at("transparent.png"))
    Image.fromarray(np.array([[0, 300.0]], np.float32)).save(at("floats.tiff"))
    Image.fromarray(np.array([[np.nan, 1]], np.float32)).save(at("nan.tiff"))
    Image.new("L", (28, 28), 0).save(at("good.png"))
    # Custom datasets: files of images and of labels.
    at("own-images").write_bytes(image_files.idx(np.zeros((20, 28, 28))))
    at("own-labels").write_bytes(image_files.idx(np.arange(20) % 10))
    at("own-11-classes").write_bytes(image_files.idx(np.arange(20) % 11))
    at("own-19-labels").write_bytes(image_files.idx(np.zeros(19)))
    at("own-huge").write_bytes(struct.pack(">IIII", 2051, 2**31, 2**10, 2**10))
    at("own-bomb.gz").write_bytes(gzip.compress(image_files.idx(np.zeros((20, 28, 28)))) + 1024 * _ZEROS)
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1048576, 1024, 1024), }"
    at("own-claims.npy").write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", 118) + header.ljust(117) + b"\n")
    with zipfile.ZipFile(at("own-zip-bomb.npz"), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("images.npy", image_files.npy(np.zeros((20, 28, 28), np.uint8)) + bytes(32 << 20))
    # Files with the names that both MNIST and Fashion-MNIST use. `data fetch --to {mnist}` must not change them.
    for name in ("mnist", "own", "fifo-dataset", "folder-dataset", "sparse-dataset"):
        at(name).mkdir()
    for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
        content = image_files.idx(np.zeros((20, 28, 28) if "images" in name else 20))
        (at("mnist") / name).write_bytes(gzip.compress(content))
        os.mkfifo(at("fifo-dataset") / name)
        (at("folder-dataset") / name).mkdir()
        (at("sparse-dataset") / name).touch()
        os.truncate(at("sparse-dataset") / name, 1 << 40)
    np.savez(at("own") / "a.npz", images=np.zeros((20, 28, 28), np.uint8), labels=np.arange(20) % 10)
    # For the checkpoint PREFIX {blocked}: its second file cannot be written.
    (at("blocked-0001.params")).mkdir()
