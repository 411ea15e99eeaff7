"""How this package was installed: the paths of its files that are not Python, and commands that install more.

A checkout has models/ and data/ as top-level folders, a wheel in fashion_infer/_data/. Compilers (-I), the dynamic
loader and HDF5 need permanent paths, which importlib.resources does not provide.
"""

import importlib.util
import os
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import List

_NAME = "fashion-infer"
_PACKAGE = Path(__file__).resolve().parent.parent
_CHECKOUT = _PACKAGE.parent
# Folders of a checkout whose names differ from those that `resource_dir` takes.
_IN_CHECKOUT = {"submission": "custom_ops/submission", "include": "custom_ops/include"}


def pip() -> List[str]:
    if importlib.util.find_spec("pip") is None and shutil.which("uv"):
        return ["uv", "pip"]
    return [sys.executable, "-m", "pip"]


def pip_install(what: str) -> str:
    words = pip()
    if words[0] == "uv":
        return f"uv pip install --python {shlex.quote(sys.executable)} {what}"
    # Use the short command if `pip` on PATH is this environment's pip.
    own = shutil.which("pip")
    if own and os.path.dirname(own) == os.path.dirname(sys.executable):
        return f"pip install {what}"
    return f"{shlex.join(words)} install {what}"


def extra(name: str) -> str:
    """Return the command line that installs one of this package's extras."""
    checkout = Path(sys.prefix) == _CHECKOUT / ".venv" and (_CHECKOUT / "Makefile").is_file()
    try:
        return f"make setup EXTRAS={name}" if checkout else pip_install(shlex.join(_requirements(name)))
    except metadata.PackageNotFoundError:  # imported from a checkout, not installed
        return pip_install(f"-e {shlex.quote(f'{_CHECKOUT}[{name}]')}")


def _requirements(name: str) -> List[str]:
    """Return an extra's requirements for this Python; all of them if there is none, for those that need a newer one."""
    from packaging.requirements import Requirement

    here, all_of_it = [], []
    for requirement in map(Requirement, metadata.requires(_NAME) or ()):
        marker, requirement.marker = requirement.marker, None
        if marker and f'extra == "{name}"' in str(marker):
            all_of_it.append(str(requirement))
            here += [str(requirement)] if marker.evaluate({"extra": name}) else []
    return here or all_of_it


def resource_dir(name):
    """Return the absolute path of a folder of shipped files: "models", "data", "docs", "submission" or "include"."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _CHECKOUT / _IN_CHECKOUT.get(name, name)


def library_path():
    return _PACKAGE / "lib" / "libfashion_ops.so"
