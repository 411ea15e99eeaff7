"""Unpacks a submission and recognises its kernel file, in a separate box with limits on time and memory.

Both steps read untrusted bytes. Afterwards, the referee's process checks that the box has left only plain files.
"""

import json
import os
import resource
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ...errors import DeviceError, UsageError
from ...kernel_files import formats, neighbours, paths
from ...kernel_files.formats import KernelFile
from . import archives
from .archives import Refused

# The course's file names. The kernel file of a folder is the first of these names that the folder contains.
_NAMES = ("new-forward.cu", "new-forward.cuh", "m3-forward.cu", "conv.cu", "submission.py", "new-forward.h",
          "cpu-new-forward.cc", "conv.cpp", "conv.c", "conv.py")  # fmt: skip
_ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".7z", ".rar")  # suffixes that no kernel file has
# Limits of the box: seconds, and bytes of memory, of temporary files and of printed output.
_SECONDS, _MEMORY, _DISK, _PRINTED = 15.0, 320 << 20, archives.MOST_BYTES + (1 << 20), 1 << 14
_BEGUN = "reading"  # the child's first line; if the child fails after this line, the submission is the cause
_WORDS = 600  # largest number of characters of a refusal


class Wanted(NamedTuple):
    format: Optional[str] = None
    backend: Optional[str] = None
    file: Optional[str] = None


def read(source: Path, folder: Path, wanted: Wanted) -> KernelFile:
    """Copy a submission's files into an empty folder, and find its kernel file there, in this process. Refused if it is
    unsafe to unpack, or has no kernel."""
    try:
        single = not (source.is_dir() or archives.is_archive(source))
        if single and source.suffix.lower() in _ARCHIVES:
            raise Refused("it is not a zip or tar archive, or is damaged: pack it as a zip again")
        files = _single(source, folder) if single else archives.unpack(source, folder)
        if single:
            return _recognised(folder / source.name, wanted)
        return _kernel(folder, files, wanted)
    except (RecursionError, MemoryError) as error:
        raise Refused(f"reading it takes more memory or recursion than allowed ({type(error).__name__})") from None


def read_boxed(source: Path, folder: Path, wanted: Wanted, layers: Any) -> KernelFile:
    """Call `read` in a box without a network, which may write only to `folder` and has limits on time and memory.
    Refused as in `read`, and when reading exceeds the limits; DeviceError if the box fails."""
    from ..inside.seccomp import ALWAYS
    from ..sandbox import Box, Broken, Limits, run

    package = Path(__file__).resolve().parents[2]
    source, folder = Path(os.path.abspath(source)), Path(os.path.realpath(folder))
    shown = source if source.is_dir() else source.resolve().parent
    box = Box(
        Limits(_SECONDS, _MEMORY, _DISK, _PRINTED, 16),
        read=(str(package.parent), str(shown), str(source)),
        write=(str(folder),),
        processes=ALWAYS,
    )
    code = f"import sys; sys.path.insert(0, {str(package.parent)!r}); from {__name__} import main; main()"
    asked = json.dumps([os.fspath(source), os.fspath(folder), *wanted])
    try:
        options = "-I", "-S", "-B", "-W", "ignore", "-c"  # a warning, as of "\d" in a file, is no answer
        ran = run(box, layers, [os.path.realpath(sys.executable), *options, code, asked])
    except Broken as error:
        raise Refused(f"it cannot be read: {error}") from None
    begun, _, rest = ran.output.partition("\n")
    if begun.strip() != _BEGUN:
        raise DeviceError(f"the process that reads submissions failed: {ran.output[-300:].strip()}")
    return _answered(rest, folder, ran.code)


def _answered(said: str, folder: Path, code: int) -> KernelFile:
    """Check the child's answer, and return the kernel file that it names. The answer is not trusted, because the child
    has read untrusted bytes."""
    try:
        found: Dict[str, Any] = json.loads(said)
        if "refused" in found:
            raise Refused(str(found["refused"])[:_WORDS])
        if "failed" in found:
            raise OSError(int(found["failed"]), os.strerror(int(found["failed"])), str(folder))
        kernel = folder / str(found["kernel"])
        if ".." in kernel.parts or folder not in kernel.parents or found["backend"] not in ("cpu", "gpu", "any"):
            raise ValueError
        defines = tuple(str(one) for one in found["defines"])
        if not all(one.replace("_", "").isalnum() and one.startswith("FOPS_") for one in defines):
            raise ValueError
        return KernelFile(kernel, formats.find(str(found["format"])), defines, found["backend"])
    except (ValueError, KeyError, TypeError, RecursionError, UsageError):
        raise Refused(f"it cannot be read: the process that read it ended with exit code {code}") from None


def main() -> None:
    """Call `read` with the command line's only argument, [SOURCE, FOLDER, FORMAT, BACKEND, FILE]; print the result.
    Both are in JSON."""
    source, folder, *wanted = json.loads(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    print(_BEGUN, flush=True)
    try:
        kernel = read(Path(source), Path(folder), Wanted(*wanted))
        found: Dict[str, Any] = {
            "kernel": kernel.path.relative_to(folder).as_posix(),
            "format": kernel.format.name,
            "defines": kernel.defines,
            "backend": kernel.backend,
        }
    except Refused as error:
        found = {"refused": str(error)[:_WORDS]}
    except OSError as error:  # an error of this machine: `archives.unpack` converts all others to Refused
        found = {"failed": error.errno or 0}
    print(json.dumps(found))


def _single(source: Path, folder: Path) -> List[Path]:
    if not source.is_file():
        raise Refused("it is neither a file nor a folder")
    try:
        source.name.encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(f"the file name {source.name!r} is not UTF-8") from None
    root = source.resolve().parent
    if source.stat().st_size > archives.MOST_BYTES:
        raise Refused(f"it has more than {archives.MOST_BYTES >> 20} MiB")
    beside = [path for path in neighbours.of(source, root).all if path.is_file()]
    files = [Path(source.name), *(path.relative_to(root) for path in beside)]
    if len(files) > archives.MOST_FILES:
        raise Refused(f"it has more than {archives.MOST_FILES} files")
    if sum(path.stat().st_size for path in [source, *beside]) > archives.MOST_BYTES:
        raise Refused(f"it has more than {archives.MOST_BYTES >> 20} MiB")
    for relative in files:
        (folder / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source if relative == files[0] else root / relative, folder / relative)
    return sorted(files)


def _recognised(path: Path, wanted: Wanted) -> KernelFile:
    try:
        return formats.recognise(path, wanted.format, wanted.backend)
    except UsageError as error:
        raise Refused(str(error).replace(f"{path.parent}/", "")) from None


def _kernel(folder: Path, files: List[Path], wanted: Wanted) -> KernelFile:
    if wanted.file is not None:
        if Path(wanted.file) not in files:
            raise Refused(f"it has no file {wanted.file}")
        return _recognised(folder / wanted.file, wanted)
    found = {}
    for path in files:
        if path.suffix.lower() in paths.SUFFIXES:
            try:
                found[path] = formats.recognise(folder / path, wanted.format, wanted.backend)
            except UsageError:
                continue
    for name in _NAMES:
        named = sorted((path for path in found if path.name == name), key=lambda path: len(path.parts))
        if named:
            return found[named[0]]
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        looked = ", ".join(str(path) for path in files[:5]) or "it has no file"
        raise Refused(f"no file in it has a known format ({looked}): see `fashion-infer kernel formats`")
    several: Tuple[str, ...] = tuple(map(str, sorted(found)[:5]))
    suffix = sorted(found)[0].suffix.lower()  # another suffix may mean another backend
    name = next((name for name in _NAMES if name.endswith(suffix)), "conv.cpp")
    raise Refused(f"several files in it have kernels: {', '.join(several)}; name one of them {name}")
