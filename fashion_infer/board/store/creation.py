"""Opens the board's database for a command, or creates it, completely or not at all."""

import contextlib
import os
import tempfile
from functools import partial
from typing import Iterator, Optional

from ...errors import DataError
from ...system.files import folder_made, vanishing
from .database import FILE, Store, file_url, url_of


@contextlib.contextmanager
def opened(data: str, database: Optional[str], makes: bool) -> Iterator[Store]:
    """Return a context with the board's database: the URL `database`, or the file in the folder `data`.

    With `makes`, a missing board is created, but only if the block succeeds; otherwise it is a UsageError.
    """
    if database or not makes or os.path.exists(os.path.join(data, FILE)):
        with contextlib.closing(Store(url_of(data, database, makes))) as store:
            yield store
    else:
        with _created(data) as store:
            yield store


@contextlib.contextmanager
def _created(data: str) -> Iterator[Store]:
    with contextlib.ExitStack() as undo:
        try:
            folder = undo.enter_context(folder_made(data, 0o700))
            # The temporary folder is inside the board's folder, because hard links do not cross file systems.
            temporary = undo.enter_context(vanishing(partial(tempfile.mkdtemp, dir=folder, prefix=".new.")))
        except OSError as error:
            raise DataError(f"cannot create the board's folder {data}: {error.strerror}") from None
        with contextlib.closing(Store(file_url(os.path.join(temporary, FILE)))) as store:
            yield store
        try:
            # A link, because a rename would replace a board that another command has created.
            os.link(os.path.join(temporary, FILE), folder / FILE)
        except OSError as error:
            raise DataError(f"cannot create the board in {data}: {error.strerror}") from None
