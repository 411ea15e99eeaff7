"""The folder of a job's results: one Parquet file per finished block, and a manifest that identifies the job."""

import contextlib
import io
import json
import os
import re
from typing import Any, Dict, Iterator, NamedTuple, Optional

import pyarrow
from pyarrow import fs, parquet

from ..errors import DataError
from ..system.files import folder_made, replacing
from ..system.text import one_line
from . import places

MANIFEST = "_job.json"  # readers of Parquet folders skip names that begin with _
# With this encoding, a row takes 0.8 bytes instead of 3.3; a row with scores takes 39 bytes instead of 53.
_ENCODING = {"index": "DELTA_BINARY_PACKED"}
_KEY = b"fashion_infer"  # key of our entry in a file's metadata
_NAME = re.compile(r"part-(\d{9})\.parquet")


class Kept(NamedTuple):
    images: int  # number of images in the block
    correct: Optional[int]  # number of predictions that equal their labels; None without labels


def name_of(index: int) -> str:
    """Return the name of a block's file. If files are sorted by name, they are in the order of the images."""
    return f"part-{index:09d}.parquet"


class ResultFolder:
    def __init__(self, place: str, identity: str):
        self.place, self.identity = place, identity
        self._system, self._path = places.filesystem(place)
        self._local = not places.is_uri(place)

    @contextlib.contextmanager
    def claimed(self, facts: Dict[str, Any]) -> Iterator[None]:
        """Return a context that claims the folder. On an error without results, what was created is removed again."""
        with contextlib.ExitStack() as undo:
            if self._local:
                with self._explained():
                    undo.enter_context(folder_made(self._path))
            fresh = self.claim(facts)
            try:
                yield
            except BaseException:
                with contextlib.suppress(DataError, OSError, pyarrow.ArrowException):
                    if fresh and next(self.kept(), None) is None:
                        self._system.delete_file(f"{self._path}/{MANIFEST}")
                raise

    def claim(self, facts: Dict[str, Any]) -> bool:
        with self._explained():
            self._system.create_dir(self._path, recursive=True)
            known = self._manifest()
            if known is None:
                found = self._system.get_file_info(fs.FileSelector(self._path))
                if any(not os.path.basename(info.path).startswith(".") for info in found):
                    raise DataError(f"{self.place} has files that are not results: name a new folder")
                self._write(MANIFEST, json.dumps({**facts, "job": self.identity}, indent=2).encode())
            elif known.get("job") != self.identity:
                raise DataError(
                    f"{self.place} has the results of another job ({_difference(known, facts)}): name "
                    "another folder, or delete this one"
                )
            return known is None

    def check(self) -> None:
        """Raise DataError unless this process can access the job's folder, as every node of a cluster must."""
        with self._explained():
            known = self._manifest()
        if known is None or known.get("job") != self.identity:
            raise DataError(f"{self.place} is not on every node: name a shared folder, or s3://BUCKET/FOLDER")

    def kept(self) -> Iterator[int]:
        with self._explained():
            for info in self._system.get_file_info(fs.FileSelector(self._path)):
                match = _NAME.fullmatch(os.path.basename(info.path))
                if match:
                    yield int(match.group(1))

    def read(self, index: int) -> Optional[Kept]:
        try:
            with self._system.open_input_file(f"{self._path}/{name_of(index)}") as stream:
                metadata = parquet.ParquetFile(stream).metadata
                said = json.loads((metadata.metadata or {}).get(_KEY, b"{}"))
        except (OSError, ValueError, pyarrow.ArrowException):
            return None
        whole = said.get("job") == self.identity and said.get("block") == index
        return Kept(metadata.num_rows, said.get("correct")) if whole else None

    def write(self, index: int, table: pyarrow.Table, correct: Optional[int]) -> None:
        said = {"job": self.identity, "block": index, "correct": correct}
        table = table.replace_schema_metadata({_KEY: json.dumps(said).encode()})
        content = io.BytesIO()
        parquet.write_table(table, content, compression="zstd", use_dictionary=["source"], column_encoding=_ENCODING)
        with self._explained():
            self._write(name_of(index), content.getbuffer())

    def _write(self, name: str, content: Any) -> None:
        if self._local:
            with replacing(os.path.join(self._path, name), DataError) as temporary, open(temporary, "wb") as stream:
                stream.write(content)
        else:  # in an object store, the file appears only when the stream is closed, so that it is complete
            with self._system.open_output_stream(f"{self._path}/{name}") as stream:
                stream.write(content)

    def _manifest(self) -> Optional[Dict[str, Any]]:
        path = f"{self._path}/{MANIFEST}"
        if self._system.get_file_info(path).type != fs.FileType.File:
            return None
        with self._system.open_input_file(path) as stream:
            try:
                found = json.loads(stream.read())
            except ValueError:
                found = None
        return found if isinstance(found, dict) else {}

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, pyarrow.ArrowException) as error:  # ValueError: a name that is not UTF-8
            raise DataError(f"cannot write {self.place} ({one_line(error)})") from None


def _difference(known: Dict[str, Any], facts: Dict[str, Any]) -> str:
    for key, value in facts.items():
        if known.get(key) != value:
            if key in ("weights", "inputs"):
                return f"its {key} are different"
            return f"its {key} is {known.get(key)}, not {value}"
    return "its manifest is damaged"
