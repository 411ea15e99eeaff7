"""Classifies many images in blocks with fused networks, on one or more machines; writes one Parquet file per block."""

import importlib.util

from ..errors import UsageError
from ..system import installation


def require(ray: bool) -> None:
    wanted = {"pyarrow": "PyArrow", **({"ray": "Ray"} if ray else {})}
    missing = [name for module, name in wanted.items() if importlib.util.find_spec(module) is None]
    if missing:
        what = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
        raise UsageError(f"{what}: {installation.extra('scale')} (Python 3.10 or newer)")
