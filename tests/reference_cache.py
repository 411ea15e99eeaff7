"""Float64 references, computed once and kept between runs.

A reference is kept under the SHA-256 of all that decides it: the oracle's source files, its arguments and NumPy's
version. A changed oracle, weight or pixel therefore asks for another file. A damaged file is computed anew.

The folder is `fashion-infer/test-references` in the user's cache, or FASHION_INFER_TEST_REFERENCES; set to nothing,
that variable switches the cache off.
"""

import contextlib
import fcntl
import hashlib
import io
import os
import tempfile
from pathlib import Path

import numpy as np

KEPT = 64  # files, the newest; the twelve models' references take 10 MB
_DIGEST = hashlib.sha256().digest_size


def folder():
    """Where references are kept; None when they are not."""
    chosen = os.environ.get("FASHION_INFER_TEST_REFERENCES")
    if chosen is not None:
        return Path(chosen) if chosen else None
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "fashion-infer" / "test-references"


def key(sources, *arguments):
    """The name of a reference: SHA-256 of its oracle's source files and of its arguments.

    Arguments are arrays, or lists and tuples that hold arrays, or values whose `repr` tells them apart.
    """
    digest = hashlib.sha256(f"NumPy {np.__version__}".encode())
    for path in sources:
        _add(digest, b"source", Path(path).read_bytes())
    for argument in arguments:
        _add_argument(digest, argument)
    return digest.hexdigest()


def _add(digest, kind, content):
    digest.update(b"%s %d\n" % (kind, len(content)))
    digest.update(content)


def _add_argument(digest, argument):
    if isinstance(argument, np.ndarray):
        _add(
            digest,
            f"array {argument.dtype.str} {argument.shape}".encode(),
            np.ascontiguousarray(argument).data.cast("B"),
        )
    elif isinstance(argument, (list, tuple)):
        _add(digest, type(argument).__name__.encode(), str(len(argument)).encode())
        for part in argument:
            _add_argument(digest, part)
    else:
        _add(digest, b"value", repr(argument).encode())


def kept(oracle, *arguments, sources, where=None):
    """`oracle(*arguments)`, an array, from the cache where it is there and whole.

    Parameters
    ----------
    oracle
        A function that returns an array, the same for the same arguments.
    arguments
        As `key` takes them.
    sources
        Every file whose text decides what the oracle computes.
    where
        The cache's folder; default: `folder()`.
    """
    where = folder() if where is None else where
    if where is None:
        return oracle(*arguments)
    path = where / f"{key(sources, *arguments)}.npy"
    with _locked(path):
        array = _read(path)
        if array is None:
            array = oracle(*arguments)
            _write(path, array)
    return array


@contextlib.contextmanager
def _locked(path):
    """One process computes a reference, another that wants it meanwhile waits; without a lock where none can be had."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(str(path.with_suffix(".lock")), "w")  # noqa: SIM115  (closed below)
    except OSError:
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read(path):
    """The array in a file, or None when it is not there or not whole."""
    try:
        content = path.read_bytes()
        os.utime(str(path))  # used now: the last to go
    except OSError:
        return None
    digest, stored = content[:_DIGEST], content[_DIGEST:]
    if hashlib.sha256(stored).digest() != digest:
        return None
    return np.load(io.BytesIO(stored), allow_pickle=False)


def _write(path, array):
    """Keep an array; a folder that cannot be written is no reason for a test to fail."""
    stored = io.BytesIO()
    np.save(stored, array, allow_pickle=False)
    try:
        with tempfile.NamedTemporaryFile(dir=str(path.parent), delete=False) as file:
            file.write(hashlib.sha256(stored.getvalue()).digest() + stored.getvalue())
        os.replace(file.name, str(path))
        for old in sorted(path.parent.glob("*.npy"), key=lambda file: file.stat().st_mtime)[:-KEPT]:
            old.unlink()
            old.with_suffix(".lock").unlink()
    except OSError:
        pass
