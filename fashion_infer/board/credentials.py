"""Stores the boards and tokens that a user has logged in with, in a file that only the user can read."""

import json
import os
from pathlib import Path
from typing import Dict, NamedTuple, Optional, Tuple

import platformdirs

from ..errors import DataError, UsageError

URL, TOKEN = "FASHION_INFER_BOARD", "FASHION_INFER_BOARD_TOKEN"  # environment variables


class KnownBoard(NamedTuple):
    url: str
    token: str
    authority: Optional[str] = None  # file of certificates to trust; None for the default, see `Client`


def _file() -> Path:
    return platformdirs.user_config_path("fashion-infer") / "boards.json"


def _read() -> Dict[str, Tuple[str, Optional[str]]]:
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError("it is not a JSON object")
        whole = {url: kept if isinstance(kept, dict) else {"token": kept} for url, kept in found.items()}
        return {url: (str(kept.get("token") or ""), kept.get("ca")) for url, kept in whole.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {_file()}: {getattr(error, 'strerror', None) or error}") from None


def remember(url: str, token: str, authority: Optional[str] = None) -> Path:
    known = _read()
    known.pop(_plain(url), None)
    known[_plain(url)] = (token, authority and os.path.abspath(authority))
    whole = {url: {"token": kept, "ca": ca} if ca else kept for url, (kept, ca) in known.items()}
    path = _file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
            json.dump(whole, out, indent=1)
        os.replace(temporary, path)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror}") from None
    return path


def known(url: Optional[str]) -> KnownBoard:
    """Return the board of `url`, of FASHION_INFER_BOARD or of the last login, with its token; UsageError if none."""
    here = _read()
    chosen = url or os.environ.get(URL) or (list(here)[-1] if here else None)
    if not chosen:
        raise UsageError("no board is known: give --to https://HOST:PORT, or run `board login --to` once")
    kept, authority = here.get(_plain(chosen), ("", None))
    token = os.environ.get(TOKEN) or kept
    if not token:
        raise UsageError(f"no token for {chosen} is known: run `board login --to {chosen}`, or set {TOKEN}")
    return KnownBoard(chosen, token.strip(), authority)


def _plain(url: str) -> str:
    return url.rstrip("/")
