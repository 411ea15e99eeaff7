"""How this copy was installed, and the command lines that install more beside it."""

import importlib.util
import json
import os
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import List, Optional, Tuple
from urllib.parse import unquote, urlsplit

_NAME = "fashion-infer"
_CHECKOUT = Path(__file__).resolve().parents[2]


def pip() -> List[str]:
    """The words that run pip, or uv in its place, for this environment."""
    if importlib.util.find_spec("pip") is None and shutil.which("uv"):
        return ["uv", "pip"]
    return [sys.executable, "-m", "pip"]


def pip_install(what: str) -> str:
    """The command line that installs something into this environment; `what` is quoted already."""
    words = pip()
    if words[0] == "uv":
        return f"uv pip install --python {shlex.quote(sys.executable)} {what}"
    # The short form where a shell finds this environment's own pip.
    own = shutil.which("pip")
    if own and os.path.dirname(own) == os.path.dirname(sys.executable):
        return f"pip install {what}"
    return f"{shlex.join(words)} install {what}"


def extra(name: str) -> str:
    """The command line that installs one of this package's extras, in the way in which the package was installed."""
    if Path(sys.prefix) == _CHECKOUT / ".venv" and (_CHECKOUT / "Makefile").is_file():
        return f"make setup EXTRAS={name}"
    origin, editable = _origin()
    if origin is None:  # then the extra's own requirements serve as well
        return pip_install(shlex.join(_requirements(name)))
    return pip_install(("-e " if editable else "") + shlex.quote(f"{origin}[{name}]"))


def _origin() -> Tuple[Optional[str], bool]:
    """The wheel or folder that pip installed this package from (PEP 610), None when it is not known or is gone; and
    whether the installation is editable."""
    try:
        text = metadata.distribution(_NAME).read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # imported from the checkout, and not installed
        return str(_CHECKOUT), True
    found = json.loads(text) if text else {}
    parts = urlsplit(found.get("url", ""))
    path = unquote(parts.path)
    here = parts.scheme == "file" and os.path.exists(path)
    return (path if here else None), bool(found.get("dir_info", {}).get("editable"))


def _requirements(name: str) -> List[str]:
    """What an extra asks for on this Python and machine."""
    from packaging.requirements import Requirement

    found = []
    for requirement in map(Requirement, metadata.requires(_NAME) or ()):
        marker = requirement.marker
        if marker and marker.evaluate({"extra": name}) and not marker.evaluate({"extra": ""}):
            requirement.marker = None
            found.append(str(requirement))
    return found
