"""A cache of float64 references, which are computed once and used by later runs.

The file name of a reference is the SHA-256 of everything that determines it: the oracle's source files, its arguments
and NumPy's version. Therefore a changed oracle, weight or pixel uses another file. A damaged file is computed again.

The folder is FASHION_INFER_TEST_REFERENCES or, if that is not set, `fashion-infer/test-references` in the user's cache.
If the variable is set to the empty string, the cache is off.
"""

import contextlib
import fcntl
import hashlib
import io
import os
import tempfile
from pathlib import Path

import numpy as np

KEPT = 64  # number of files to keep, newest first; the references of the twelve models take 10 MB
_DIGEST = hashlib.sha256().digest_size


def folder():
    """Return the folder of the cache, or None when the cache is off."""
    chosen = os.environ.get("FASHION_INFER_TEST_REFERENCES")
    if chosen is not None:
        return Path(chosen) if chosen else None
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "fashion-infer" / "test-references"


def key(sources, *arguments):
    """Return the name of a reference: the SHA-256 of its oracle's source files, its arguments and NumPy's version.

    Arguments are arrays, lists and tuples of such arguments, or values with a unique `repr`.
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
    """Return the array `oracle(*arguments)`, from the cache if the cache has a complete file.

    Parameters
    ----------
    oracle
        A function that always returns the same array for the same arguments.
    arguments
        Arguments of the oracle, of the types that `key` accepts.
    sources
        Every file whose text determines the oracle's result.
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
    """Lock a reference's file, so that one process computes the reference while others wait. Ignore locks that fail."""
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
    """Return the array in a file, or None when the file is missing or truncated."""
    try:
        content = path.read_bytes()
        os.utime(str(path))  # mark it as recently used
    except OSError:
        return None
    digest, stored = content[:_DIGEST], content[_DIGEST:]
    if hashlib.sha256(stored).digest() != digest:
        return None
    return np.load(io.BytesIO(stored), allow_pickle=False)


def _write(path, array):
    """Save an array, and delete the oldest files beyond KEPT. Errors of the file system are ignored."""
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
