"""Which board somebody uses, and the token for it: kept in the user's own folder, readable by nobody else."""

import json
import os
from pathlib import Path
from typing import Dict, NamedTuple, Optional

from ..errors import DataError, UsageError

URL, TOKEN = "FASHION_INFER_BOARD", "FASHION_INFER_BOARD_TOKEN"


class Known(NamedTuple):
    """A board and who one is there."""

    url: str
    token: str


def _file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(folder) / "fashion-infer" / "boards.json"


def _read() -> Dict[str, str]:
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("no table")
        return {str(url): str(token) for url, token in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {_file()}: {getattr(error, 'strerror', None) or error}") from None


def remember(url: str, token: str) -> Path:
    """Keep a token; the board is the one that is meant from then on. The file, which its owner alone can read."""
    known = _read()
    known.pop(_plain(url), None)
    known[_plain(url)] = token
    path = _file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
            json.dump(known, out, indent=1)
        os.replace(temporary, path)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}") from None
    return path


def known(url: Optional[str]) -> Known:
    """The board that is meant, and the token for it.

    Parameters
    ----------
    url
        What the user named; None for FASHION_INFER_BOARD, else the one that `board login` was last told of.

    Raises
    ------
    UsageError
        When no board or no token is known.
    """
    here = _read()
    chosen = url or os.environ.get(URL) or (list(here)[-1] if here else None)
    if not chosen:
        raise UsageError("which board? --to https://HOST:PORT, or `board login --to` once")
    token = os.environ.get(TOKEN) or here.get(_plain(chosen))
    if not token:
        raise UsageError(f"no token for {chosen}: `board login --to {chosen}` asks for it, or set {TOKEN}")
    return Known(chosen, token.strip())


def _plain(url: str) -> str:
    return url.rstrip("/")
