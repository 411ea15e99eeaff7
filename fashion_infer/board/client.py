"""Talks to a board. Needs nothing but requests: whoever submits does not need the extra `board`."""

import hashlib
import time
import uuid
from typing import Any, Callable, Dict, Iterator, List, Optional
from urllib.parse import urlsplit

import requests

from .. import __version__
from ..errors import CheckFailed, DataError, DeviceError, UsageError

_TIMEOUT = (10, 60)  # seconds to connect, and for an answer
_WAIT = 20  # seconds that a question for more of a log may wait at the board
_AGAIN = (502, 503, 504)  # what a proxy or a board says that is starting again
PATIENCE = 300.0  # seconds in which a board that does not answer is asked again


class Client:
    """One board, as one person.

    Parameters
    ----------
    url
        Of the board. Plain http only to this machine: a token must not travel in the open.
    token
        The person's.
    authority
        File of certificates to believe in place of the system's; None for those.
    notice
        Called with a line for what a person should know meanwhile.

    Raises
    ------
    UsageError
        For a URL that is none.
    """

    def __init__(
        self, url: str, token: str, authority: Optional[str] = None, notice: Callable[[str], None] = lambda line: None
    ):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url} is no board's address: https://HOST:PORT")
        if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise UsageError(f"{url} would carry your token in the open: a board elsewhere is reached by https")
        self._url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/api/v1"
        self._session = requests.Session()
        self._session.headers.update({"Authorization": f"Bearer {token}", "User-Agent": f"fashion-infer/{__version__}"})
        if parts.scheme == "https" and authority:
            self._session.verify = authority
        self._notice = notice

    def me(self) -> Dict[str, Any]:
        """Who one is, and the class."""
        return self._get("/me")

    def submit(
        self, name: str, content: bytes, of_class: Optional[str] = None, final: bool = False, again: bool = False
    ) -> Dict[str, Any]:
        """Hand in; sent again until the board says that it has it, which it then has once.

        Parameters
        ----------
        again
            A submission of its own, even if the same bytes were handed in before.
        """
        query = {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "final": str(final).lower()}
        if of_class:
            query["class"] = of_class
        if again:
            query["key"] = uuid.uuid4().hex
        return self._ask("POST", "/submissions", params=query, data=content).json()

    def submission(self, identifier: str) -> Dict[str, Any]:
        """One, with its place or its verdict and rank."""
        return self._get(f"/submissions/{_identifier(identifier)}")

    def history(self, limit: int = 100) -> List[Dict[str, Any]]:
        """One's own, newest first."""
        return self._get("/submissions", limit=limit)

    def ranking(self) -> List[Dict[str, Any]]:
        """Of the class."""
        return self._get("/ranking")

    def queue(self) -> List[Dict[str, Any]]:
        """That the class waits in."""
        return self._get("/queue")

    def cancel(self, identifier: str) -> Dict[str, Any]:
        """Take one out of the queue."""
        return self._ask("POST", f"/submissions/{_identifier(identifier)}/cancel").json()

    def log(self, identifier: str, follow: bool = True) -> Iterator[str]:
        """The lines of a log; with `follow` until the submission has ended."""
        number, path = 0, f"/submissions/{_identifier(identifier)}/log"
        while True:
            found = self._get(path, after=number, wait=_WAIT if follow else 0)
            for line in found["lines"]:
                number = line["number"]
                yield line["text"]
            if found["ended"] or not (follow or len(found["lines"]) == 1000):
                return

    def _get(self, path: str, **query: Any) -> Any:
        return self._ask("GET", path, params=query).json()

    def _ask(self, method: str, path: str, **options: Any) -> requests.Response:
        end, pause, told = time.monotonic() + PATIENCE, 0.5, False
        while True:
            try:
                # No redirect is followed: a token goes to whom it is for.
                answer = self._session.request(
                    method, self._url + path, timeout=_TIMEOUT, allow_redirects=False, **options
                )
                if answer.status_code not in _AGAIN:
                    return _checked(answer)
                why = f"it says {answer.status_code}"
            except requests.exceptions.SSLError as error:
                raise DataError(f"the board's certificate is not to be believed: {_short(error)}; --ca FILE") from None
            except (requests.ConnectionError, requests.Timeout) as error:
                why = _short(error)
            except requests.RequestException as error:
                raise UsageError(f"cannot ask the board: {_short(error)}") from None
            if time.monotonic() + pause > end:
                raise DeviceError(f"the board does not answer ({why}): try again later")
            if not told:
                self._notice(f"the board does not answer ({why}): asking again for {PATIENCE / 60:.0f} minutes")
                told = True
            time.sleep(pause)
            pause = min(2 * pause, 10.0)


def _checked(answer: requests.Response) -> requests.Response:
    """The answer; else what the board says as one of our errors."""
    if answer.ok and answer.status_code < 300:
        return answer
    try:
        said = answer.json()["detail"]
        what = said if isinstance(said, str) else "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in said)
    except (ValueError, KeyError, TypeError, IndexError):
        what = f"it says {answer.status_code}, and is perhaps no board"
    what = " ".join(str(what).split())[:300]
    if answer.status_code >= 500:
        raise DeviceError(f"the board failed: {what}")
    raise (CheckFailed if answer.status_code in (403, 409, 413, 429) else UsageError)(f"the board refuses: {what}")


def _identifier(text: str) -> str:
    if not text.isalnum() or len(text) > 32:
        raise UsageError(f"{text[:40]!r} is no submission's identifier: `board history` lists yours")
    return text.lower()


def _short(error: Exception) -> str:
    reason = getattr(error.args[0], "reason", error) if error.args else error
    return " ".join(str(reason).split())[-120:]
