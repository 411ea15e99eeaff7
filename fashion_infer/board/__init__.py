"""The class's board: people submit kernels to one service, a queue judges them, a ranking shows where each stands.

`store/` keeps everything in a database, `service.py` is the web application, `queue/` hands submissions to graders on
Ray, `client.py` is what the command line talks to a board with. All but the client needs the extra `board`.
"""

import importlib.util
import sys

from ..errors import DeviceError

_NEEDS = ("sqlalchemy", "alembic", "fastapi", "uvicorn", "prometheus_client")


def require(*also: str) -> None:
    """Check that the extra `board` is there; DeviceError with what to do when it is not.

    Parameters
    ----------
    also
        Modules that are needed beside those of the service, such as "ray".
    """
    if sys.version_info < (3, 10):
        raise DeviceError(f"a board needs Python 3.10 or newer, this is {sys.version_info[0]}.{sys.version_info[1]}")
    missing = [name for name in (*_NEEDS, *also) if importlib.util.find_spec(name) is None]
    if missing:
        raise DeviceError(f"a board needs {', '.join(missing)}: pip install 'fashion-infer[board]'")
