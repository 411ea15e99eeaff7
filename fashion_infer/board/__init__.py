"""Class leaderboard: people submit kernels to one service, a queue judges them, a ranking shows where each stands.

`store/` keeps everything in a database, `service.py` is the web application with `api/` and `page/`, `queue/` passes
submissions to graders, `client.py` is how the command line talks to a board. All but the client needs the extra
`board`, and graders on Ray need the extra `ray`.
"""

import importlib.util
import sys

from ..errors import DeviceError
from ..system import installation

_NEEDS = ("sqlalchemy", "alembic", "fastapi", "uvicorn", "prometheus_client", "python_multipart")


def require(ray: bool = False) -> None:
    """Check that the extra `board`, and `ray` if it is needed, is installed; DeviceError with what to do when not."""
    if sys.version_info < (3, 10):
        raise DeviceError(f"a board needs Python 3.10 or newer, this is {sys.version_info[0]}.{sys.version_info[1]}")
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise DeviceError(f"a board needs {', '.join(missing)}: {installation.extra('board')}")
    if ray and importlib.util.find_spec("ray") is None:
        raise DeviceError(f"graders on Ray need ray: serve with --ray off, or {installation.extra('ray')}")
