"""The class board: a web service that takes kernels, graders that judge them one after another, and a ranking.

A service needs the extra `board`, and graders on Ray need the extra `ray`; the client needs neither.
"""

import importlib.util
import sys

from ..errors import DeviceError
from ..system import installation

_NEEDS = ("sqlalchemy", "alembic", "fastapi", "uvicorn", "python_multipart")


def require(ray: bool = False) -> None:
    """Raise DeviceError, with advice, unless the extra `board` (and with `ray`, also the extra `ray`) is installed."""
    if sys.version_info < (3, 10):
        raise DeviceError(f"a board needs Python 3.10 or newer, this is {sys.version_info[0]}.{sys.version_info[1]}")
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise DeviceError(f"a board needs {', '.join(missing)}: {installation.extra('board')}")
    if ray and importlib.util.find_spec("ray") is None:
        raise DeviceError(f"graders on Ray need ray: serve with --ray off, or {installation.extra('ray')}")
