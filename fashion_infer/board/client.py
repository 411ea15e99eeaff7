"""A client of a board. It needs only `requests`, because people who submit need not install the extra `board`."""

import os
import ssl
import time
import uuid
from typing import Any, Callable, Dict, Iterator, List, Optional, Union
from urllib.parse import urlsplit

import requests

from ..errors import CheckFailed, DataError, DeviceError, UsageError
from ..version import __version__

_TIMEOUT = (10, 60)  # longest wait in seconds for a connection, and for the next bytes of an answer
_WAIT = 20  # seconds for which the board waits for the next log line before it answers a request
# Environment variables that name a file or folder of certificates to trust.
_TRUSTED = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
_AGAIN = (502, 503, 504)  # HTTP statuses after which a request is retried: the board may be restarting
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")  # OpenSSL's errors for an answer in plain HTTP
PATIENCE = 300.0  # default of a client's patience in seconds, enough for a board to restart


class Client:
    """A client of a board with one person's token, over https or on this machine; `authority` are certificates."""

    def __init__(
        self,
        url: str,
        token: str,
        authority: Optional[str] = None,
        notice: Callable[[str], None] = lambda line: None,
        patience: float = PATIENCE,
    ):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url} is not a board's address: write it as https://HOST:PORT")
        if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise UsageError(f"{url} does not encrypt your token: use https")
        self._url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/api/v1"
        self._session = requests.Session()
        self._session.headers["User-Agent"] = f"fashion-infer/{__version__}"
        self._session.auth = _Bearer(token)
        # This is passed with each request, because requests prefers the environment's file to a session's setting.
        self._verify: Union[str, bool] = authority or next(filter(None, map(os.environ.get, _TRUSTED)), True)
        if parts.scheme == "https" and isinstance(self._verify, str):
            _check_authority(self._verify)
        self._notice, self._patience = notice, patience

    def me(self) -> Dict[str, Any]:
        return self._get("/me")

    def submit(
        self,
        name: str,
        content: bytes,
        of_class: Optional[str] = None,
        final: bool = False,
        again: bool = False,
        test: bool = False,
    ) -> Dict[str, Any]:
        query = {"name": name}
        query.update({name: "true" for name, wanted in (("final", final), ("test", test)) if wanted})
        if of_class:
            query["class"] = of_class
        if again:
            query["key"] = uuid.uuid4().hex
        return self._ask("POST", "/submissions", params=query, data=content).json()

    def submission(self, identifier: str) -> Dict[str, Any]:
        return self._get(f"/submissions/{_identifier(identifier)}")

    def history(self, limit: int = 100) -> List[Dict[str, Any]]:
        return self._get("/submissions", limit=limit)

    def ranking(self) -> List[Dict[str, Any]]:
        return self._get("/ranking")

    def cancel(self, identifier: str) -> Dict[str, Any]:
        return self._ask("POST", f"/submissions/{_identifier(identifier)}/cancel").json()

    def log(self, identifier: str, follow: bool = True) -> Iterator[str]:
        """Yield the lines of a submission's log; if `follow`, also new lines until the submission has ended."""
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
        end, pause, noticed = time.monotonic() + self._patience, 0.5, False
        while True:
            try:
                # Redirects are not followed, because no other server may get the token.
                answer = self._session.request(
                    method, self._url + path, timeout=_TIMEOUT, allow_redirects=False, verify=self._verify, **options
                )
                if answer.status_code not in _AGAIN:
                    return _answer_or_error(answer)
                why = f"HTTP {answer.status_code}"
            except requests.exceptions.SSLError as error:
                why = _short(error)
                if "CERTIFICATE_VERIFY_FAILED" in why:
                    raise DataError(
                        f"the board's certificate is not trusted ({_plain(why)}): give its authority with --ca FILE.pem"
                    ) from None
                if any(word in why for word in _NO_TLS):
                    board = self._url.rpartition("/api")[0]
                    raise UsageError(f"{board} does not answer with TLS: use http:// or check the port") from None
            except (requests.ConnectionError, requests.Timeout) as error:
                why = _short(error)
            except requests.RequestException as error:
                raise UsageError(f"the request to the board failed: {_short(error)}") from None
            if time.monotonic() + pause > end:
                raise DeviceError(f"the board does not answer ({why}): check its address, or try again later")
            if not noticed:
                self._notice(f"the board does not answer ({why}): retrying for {self._patience / 60:.0f} minutes")
                noticed = True
            time.sleep(pause)
            pause = min(2 * pause, 10.0)


class _Bearer(requests.auth.AuthBase):
    """Adds the token as requests' `auth`: a plain header would be replaced by the entry for the host in ~/.netrc."""

    def __init__(self, token: str):
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _check_authority(path: str) -> None:
    try:
        if not os.path.isdir(path):
            ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise DataError(f"{path} contains no certificate (PEM)") from None
    except OSError as error:
        raise DataError(f"cannot read the certificates {path}: {error.strerror}") from None


def _answer_or_error(answer: requests.Response) -> requests.Response:
    """Return an answer with a status below 300; raise the message of any other answer as an error of this package."""
    if answer.ok and answer.status_code < 300:
        return answer
    try:
        said = answer.json()["detail"]
        if said == "Not Found":  # FastAPI's answer for an unknown path, not the board's for an unknown submission
            raise ValueError
        what = said if isinstance(said, str) else "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in said)
    except (ValueError, KeyError, TypeError, IndexError):
        what = f"HTTP {answer.status_code}; the address may not be a board's"
    what = " ".join(str(what).split())[:300]
    if answer.status_code >= 500:
        raise DeviceError(f"the board has failed: {what}")
    raise (CheckFailed if answer.status_code in (403, 409, 413, 429) else UsageError)(f"the board refuses: {what}")


def _identifier(text: str) -> str:
    if not text.isalnum() or len(text) > 32:
        raise UsageError(f"{text[:40]!r} is not a submission's identifier: `board history` lists them")
    return text.lower()


def _short(error: Exception) -> str:
    reason = getattr(error.args[0], "reason", error) if error.args else error
    return " ".join(str(reason).split())[-160:]


def _plain(why: str) -> str:
    """Return the part of requests' message that is OpenSSL's reason for rejecting a certificate."""
    return why.partition("verify failed: ")[2].partition(" (_ssl")[0] or why
