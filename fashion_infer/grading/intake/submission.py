"""A submission: a file, a folder or an archive, staged where nothing but it lies, and the kernel file in it."""

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import List, NamedTuple, Optional, Tuple

from ...errors import UsageError
from ...kernel_files import formats, neighbours, paths
from ...kernel_files.formats import KernelFile
from ...system import cache_limits
from . import archives
from .archives import Refused

# What the course called them; the first of these that a folder has is its kernel file.
_NAMES = ("new-forward.cu", "new-forward.cuh", "m3-forward.cu", "conv.cu", "submission.py", "new-forward.h",
          "cpu-new-forward.cc", "conv.cpp", "conv.c", "conv.py")  # fmt: skip


class Submission(NamedTuple):
    """A submission that lies in a folder of its own."""

    source: Path  # as it was named
    folder: Path
    files: Tuple[str, ...]  # relative to the folder
    digest: str  # SHA-256 of all files with their names, in hexadecimal
    kernel: KernelFile


def check(source: str) -> Path:
    """The path of a submission; UsageError when there is nothing of that name."""
    path = Path(source)
    if not path.exists():
        raise UsageError(f"there is no submission {source}")
    return path


def stage(
    source: Path, room: Path, format: Optional[str] = None, backend: Optional[str] = None, file: Optional[str] = None
) -> Submission:
    """Copy a submission into a folder of its own, and find its kernel file.

    Parameters
    ----------
    source
        A kernel file (what it includes from its own folder comes along), a folder or an archive.
    room
        Where such folders lie. A folder's name is its content's digest: the same submission has the same one, and is
        built once.
    format, backend
        Format and backend to require, as `kernel_files.formats.recognise` takes them.
    file
        The kernel file's path in a folder or an archive; None to look for it.

    Raises
    ------
    Refused
        When it is unsafe to unpack, or has no kernel.
    """
    single = not (source.is_dir() or archives.is_archive(source))
    with cache_limits.writing(room), tempfile.TemporaryDirectory(dir=room, prefix="stage-") as temporary:
        fresh = Path(temporary) / "files"
        fresh.mkdir()
        files = _single(source, fresh) if single else archives.unpack(source, fresh)
        names = tuple(path.as_posix() for path in files)
        digest = _digest(fresh, names)
        folder = room / digest[:32]
        cache_limits.make_room(sum((fresh / name).lstat().st_size for name in names), folder)
        try:
            fresh.rename(folder)
        except OSError:
            if not folder.is_dir():  # else it is there already
                raise
        cache_limits.use(folder)
    if single:
        kernel = _recognised(folder / source.name, format, backend)
    else:
        kernel = _kernel(folder, files, format, backend, file)
    return Submission(source, folder, names, digest, kernel)


def _single(source: Path, folder: Path) -> List[Path]:
    if not source.is_file():
        raise Refused("it is neither a file nor a folder")
    beside = [path for path in neighbours.of(source, source.resolve().parent).all if path.is_file()]
    root = source.resolve().parent
    files = [Path(source.name)]
    for path in beside:
        files.append(path.relative_to(root))
    if sum(path.stat().st_size for path in [source, *beside]) > archives.MOST_BYTES:
        raise Refused(f"it has more than {archives.MOST_BYTES >> 20} MiB")
    for relative in files:
        (folder / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / relative, folder / relative)
    return sorted(files)


def _recognised(path: Path, format: Optional[str], backend: Optional[str]) -> KernelFile:
    try:
        return formats.recognise(path, format, backend)
    except UsageError as error:
        raise Refused(str(error).replace(f"{path.parent}/", "")) from None


def _kernel(folder, files, format, backend, wanted) -> KernelFile:
    if wanted is not None:
        if Path(wanted) not in files:
            raise Refused(f"it has no file {wanted}")
        return _recognised(folder / wanted, format, backend)
    found = {}
    for path in files:
        if path.suffix.lower() in paths.SUFFIXES:
            try:
                found[path] = formats.recognise(folder / path, format, backend)
            except UsageError:
                continue
    for name in _NAMES:
        named = sorted((path for path in found if path.name == name), key=lambda path: len(path.parts))
        if named:
            return found[named[0]]
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        looked = ", ".join(str(path) for path in files[:5]) or "no file at all"
        raise Refused(f"no file in it has a kernel of a known format ({looked}): `fashion-infer kernel formats`")
    raise Refused(f"several files in it have kernels: {', '.join(map(str, sorted(found)[:5]))}; name one of them "
                  f"{_NAMES[0]}")  # fmt: skip


def _digest(folder: Path, names: Tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for name in names:
        content = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        digest.update(f"{name}\0{content}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
