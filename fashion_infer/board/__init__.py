"""Class leaderboard: people submit kernels to one service, graders judge them in turn, a ranking compares their times.

`store/` stores everything in a database. `service.py` is the web application, with `api/` and `page/`. `queue/` passes
submissions to graders. `client.py` connects the command line to a board. All modules except the client need the extra
`board`, and graders on Ray need the extra `ray`.
"""

import importlib.util
import sys

from ..errors import DeviceError
from ..system import installation

_NEEDS = ("sqlalchemy", "alembic", "fastapi", "uvicorn", "prometheus_client", "python_multipart")


def require(ray: bool = False) -> None:
    """Check that the extra `board` (with `ray`, also the extra `ray`) is installed; else DeviceError with advice."""
    if sys.version_info < (3, 10):
        raise DeviceError(f"a board needs Python 3.10 or newer, this is {sys.version_info[0]}.{sys.version_info[1]}")
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise DeviceError(f"a board needs {', '.join(missing)}: {installation.extra('board')}")
    if ray and importlib.util.find_spec("ray") is None:
        raise DeviceError(f"graders on Ray need ray: serve with --ray off, or {installation.extra('ray')}")
