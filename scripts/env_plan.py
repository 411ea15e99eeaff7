"""What .venv is to hold, and why it is made anew: the decisions of make_env.py, which does the work.

Standard library of Python 3.6 alone.
"""

import ast
import configparser
import hashlib
import os
import re
import runpy
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MXNET_WHEELS = {"cpu": "mxnet", "cu112": "mxnet-cu112"}
# A variable that is set is remembered, for a later call without it would else build everything again. Set and empty, it
# is forgotten.
SETTINGS = ("CXX", "CUDACXX", "FASHION_INFER_CUDA", "FASHION_OPS_CUDA_ARCHS")
# What the library is built from. The rest of custom_ops is pages, and the adapters of kernel files.
LIBRARY_SOURCES = ("custom_ops", "setup.py")
COMPILED = {".cpp", ".cu", ".h", ".cuh", ".inc", ".txt", ".cmake", ".map", ".py"}
PACKAGE_SOURCES = ("setup.cfg", "pyproject.toml")
FROM_PYPI = "PyPI"  # in the place of a path: nvcc of extra `gpu`

compilers = runpy.run_path(str(ROOT / "fashion_infer" / "system" / "compilers.py"))
has_driver = compilers["has_driver"]


def machine_nvcc():
    """The machine's CUDA compiler. Wheels of the Python that runs this do not count: the environment has its own."""
    return compilers["find_nvcc"](sites=())


def make_plan(before, mxnet=None, more_extras=(), cuda=False):
    """What the environment is to hold: what is asked for now, and what was asked for before."""
    settings = remembered_settings(before, cuda)
    for name in SETTINGS:
        os.environ.pop(name, None)
    os.environ.update(settings)
    nvcc = choose_nvcc(before.get("library") or {})
    mxnet = mxnet or before.get("mxnet", "cpu")
    # What was once asked for stays, or `make test` would undo what `make run BACKEND=gpu` did.
    extras = {*before.get("extras", ()), *more_extras} - {"cu112"}
    if mxnet == "cu112":
        extras.add("cu112")
    if nvcc == FROM_PYPI:
        extras.add("gpu")
    return {
        "mxnet": mxnet,
        "extras": sorted(extras),
        "settings": settings,
        "packages": requirements(MXNET_WHEELS[mxnet], extras),
        "library": {
            "sources": fingerprint(LIBRARY_SOURCES),
            "version": version(),
            "place": str(ROOT),
            "cxx": os.environ.get("CXX", "c++"),
            "nvcc": nvcc,
            "archs": os.environ.get("FASHION_OPS_CUDA_ARCHS", "") if nvcc else "",
        },
        "package": [fingerprint(PACKAGE_SOURCES), version(), str(ROOT)],
    }


def remembered_settings(before, cuda):
    """The variables of SETTINGS that are set now, or were in an earlier call."""
    settings = dict(before.get("settings", {}))
    settings.update((name, os.environ[name]) for name in SETTINGS if name in os.environ)
    if cuda and os.environ.get("FASHION_INFER_CUDA") != "off":
        settings["FASHION_INFER_CUDA"] = "on"
    settings = {name: value for name, value in settings.items() if value}
    if settings.get("FASHION_INFER_CUDA", "auto") not in ("auto", "on", "off"):
        sys.exit("fashion-infer: FASHION_INFER_CUDA is none of on, off and auto")
    return settings


def choose_nvcc(library):
    """The CUDA compiler to build with: its path, or FROM_PYPI; None leaves CUDA out.

    Without an NVIDIA driver nothing here could run what takes minutes to compile, so it is built when asked for. What
    was built once stays, or an environment that several machines share would be built anew from one to the next.
    """
    asked = os.environ.get("FASHION_INFER_CUDA", "auto")
    earlier = library.get("nvcc")
    machine = machine_nvcc()
    if asked == "off" or (asked == "auto" and not earlier and not (machine and has_driver())):
        return None
    if "CUDACXX" not in os.environ and earlier and (earlier == FROM_PYPI or shutil.which(earlier)):
        return earlier
    return machine or FROM_PYPI


def fingerprint(sources):
    """A digest of files, and of the compiled files of folders."""
    digest = hashlib.sha256()
    for source in sources:
        path = ROOT / source
        files = [file for file in sorted(path.rglob("*")) if file.suffix in COMPILED] if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "submission" not in file.relative_to(ROOT).parts:
                digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def version():
    text = (ROOT / "fashion_infer" / "__init__.py").read_text()
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE).group(1)


def reason(before, now):
    """Why the library is built again, as the end of a line; of the first build, what is left out."""
    if not before:
        unasked = machine_nvcc() and not now["nvcc"] and "FASHION_INFER_CUDA" not in os.environ
        return " for the CPU: there is no NVIDIA driver (`make setup BACKEND=gpu` builds CUDA too)" if unasked else ""
    if bool(before["nvcc"]) != bool(now["nvcc"]):
        return " again: now with CUDA" if now["nvcc"] else " again: now without CUDA (FASHION_INFER_CUDA=off)"
    texts = {
        "place": "the checkout has moved",
        "version": "the version has changed",
        "sources": "its sources have changed",
        "cxx": "the C++ compiler (CXX) is {}, and was {}",
        "nvcc": "the CUDA compiler is {}, and was {}",
        "archs": "FASHION_OPS_CUDA_ARCHS is {}, and was {}",
    }
    changes = (
        texts[key].format(now[key] or "not set", before[key] or "not set") for key in texts if before[key] != now[key]
    )
    return " again: " + next(changes, "it is gone")


def requirements(mxnet_wheel, extras):
    """What setup.cfg and pyproject.toml ask for, with the chosen wheel of MXNet."""
    config = configparser.ConfigParser()
    config.read(str(ROOT / "setup.cfg"))
    lists = [config["options"]["install_requires"]]
    lists += [config["options.extras_require"][extra] for extra in sorted(extras)]
    names = [line.strip() for text in lists for line in text.splitlines() if line.strip()]
    build_system = (ROOT / "pyproject.toml").read_text()
    names += ast.literal_eval(re.search(r"^requires = (\[.*?^\])", build_system, re.DOTALL | re.MULTILINE).group(1))
    return [f"{mxnet_wheel}==1.9.1"] + [name for name in names if not name.startswith("mxnet=")]
