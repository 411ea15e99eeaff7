"""The class board: a web service that takes kernels, graders that judge them one after another, and a ranking.

A service needs the extra `board`, and graders on Ray need the extra `ray`; the client needs neither.
"""

import importlib.util
import sys
from typing import NamedTuple, Optional

from ..errors import DeviceError
from ..system import installation

_NEEDS = ("sqlalchemy", "alembic", "fastapi", "uvicorn", "python_multipart")


class BoardSettings(NamedTuple):
    data: str = "board"
    database: Optional[str] = None  # a URL; None for SQLite in the folder `data`
    host: str = "127.0.0.1"
    port: int = 8408
    ray: str = "auto"  # "auto" to start Ray here, the address of a cluster, or "off"
    cpu_slots: int = 1  # submissions to CPU classes judged at once on this machine
    certificate: Optional[str] = None  # a path; None for plain HTTP on the loopback or behind a proxy
    key: Optional[str] = None
    proxies: Optional[str] = None  # trusted for X-Forwarded-*, separated by commas
    grader: Optional[str] = None  # a command with the options of `fashion-infer grade`, used instead of it
    json_logs: bool = False  # whether logs are lines of JSON, also about what is no warning

    @property
    def secure(self) -> bool:
        return bool(self.certificate or self.proxies)


def require(ray: bool = False) -> None:
    """Raise DeviceError, with advice, unless the extra `board` (and with `ray`, also the extra `ray`) is installed."""
    if sys.version_info < (3, 10):
        raise DeviceError(f"a board needs Python 3.10 or newer, this is {sys.version_info[0]}.{sys.version_info[1]}")
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise DeviceError(f"a board needs {', '.join(missing)}: {installation.extra('board')}")
    if ray and importlib.util.find_spec("ray") is None:
        raise DeviceError(f"graders on Ray need ray: serve with --ray off, or {installation.extra('ray')}")
