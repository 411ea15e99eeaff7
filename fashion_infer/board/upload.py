"""Makes an upload of a submission: a kernel file, or an archive of several files."""

import io
import zipfile
from pathlib import Path
from typing import List, NamedTuple

from ..errors import UsageError
from ..kernel_files import neighbours
from ..system import inputs

_MOST = 64 << 20  # size limit in bytes of the files together; a board may have a smaller limit


class Upload(NamedTuple):
    name: str
    content: bytes


def packed(source: str) -> Upload:
    """Return the upload of a file; UsageError if it cannot be read or is too large. A folder, without hidden files
    and links, becomes a zip archive, and so does a kernel file with the files of its folder that it includes."""
    path = Path(source)
    try:
        if path.is_dir():
            return Upload(f"{path.resolve().name}.zip", _zip(path, _files(path)))
        if not path.is_file():
            raise UsageError(f"there is no file or folder {source}")
        root = path.resolve().parent
        beside = [one for one in neighbours.of(path, root).all if one.is_file()]
        if beside:
            return Upload(f"{path.stem}.zip", _zip(root, sorted({root / path.name, *beside})))
        return Upload(path.name, inputs.read(path, _MOST, UsageError))
    except OSError as error:
        raise UsageError(f"cannot read {source}: {error.strerror}") from None


def _files(folder: Path) -> List[Path]:
    found = []
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.is_file() and not path.is_symlink():
            found.append(path)
    if not found:
        raise UsageError(f"{folder} has no files")
    return found


def _zip(root: Path, files: List[Path]) -> bytes:
    out = io.BytesIO()
    size = 0
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            content = inputs.read(path, _MOST, UsageError)
            size += len(content)
            if size > _MOST:
                raise UsageError(f"{root} is larger than the limit of {_MOST >> 20} MiB")
            # ZipInfo gives all members the same date, so that archives of equal files have the same digest.
            archive.writestr(zipfile.ZipInfo(path.relative_to(root).as_posix()), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()
