"""What `doctor` looks at: each part of an installation, with ok or what to do about it."""

import json
import platform
import sys
from pathlib import Path
from typing import Callable, List, NamedTuple, Optional, Tuple

import numpy as np

from . import _mxnet, devices
from ._mxnet import plugin
from .checkpoints import zoo
from .data import locate
from .errors import DataError, DeviceError, FashionInferError
from .grading import sandbox
from .library import bindings, build, kernels, thread_pool
from .library import devices as cuda


class Finding(NamedTuple):
    """One line of the report. `ok` is None where something is absent that need not be there."""

    ok: Optional[bool]
    what: str
    found: str
    advice: str = ""


def examine() -> List[Finding]:
    """Look at everything; never raises for a broken part."""
    parts: Tuple[Tuple[str, Callable[[], List[Finding]]], ...] = (
        ("Python", _python),
        ("MXNet", _mxnet_build),
        ("operator library", _library),
        ("set-up", _set_up),
        ("CUDA devices", _cuda),
        ("dataset", _dataset),
        ("models", _models),
        ("sandbox", _sandbox),
    )
    findings: List[Finding] = []
    for what, part in parts:
        try:
            findings += part()
        except (FashionInferError, ImportError) as error:
            problem, _, advice = str(error).rpartition(": ")
            findings.append(Finding(False, what, problem or advice, advice if problem else ""))
    return findings


def _python() -> List[Finding]:
    return [
        Finding(True, "Python", f"{platform.python_version()} on {platform.machine()}"),
        Finding(True, "NumPy", np.__version__),
    ]


def _mxnet_build() -> List[Finding]:
    mx = _mxnet.load()
    return [Finding(True, "MXNet", f"{mx.__version__}, {_mxnet.build()} build")]


def _library() -> List[Finding]:
    plugin.load_operators()
    findings = [
        Finding(True, "operator library", f"{bindings.library_path()}\n{build.build_info()}"),
        Finding(True, "CPU", f"{build.cpu_isa()}, {thread_pool.size()} threads"),
    ]
    for backend in ("cpu", "gpu"):
        names = ", ".join(kernel.name for kernel in kernels.table(backend))
        advice = "" if names else "`make setup BACKEND=gpu` builds them"
        findings.append(Finding(True if names else None, f"{backend} kernels", names or "none", advice))
    return findings


def _set_up() -> List[Finding]:
    """What `make` remembers of this environment (scripts/make_env.py); nothing where it was not made so."""
    record = Path(sys.prefix) / "fashion-infer.json"
    if not record.is_file():
        return []
    remembered = json.loads(record.read_text())
    library, settings = remembered.get("library", {}), remembered.get("settings", {})
    nvcc = library.get("nvcc")
    cuda = f"with CUDA, by nvcc {'from PyPI' if nvcc == 'PyPI' else nvcc}" if nvcc else "without CUDA"
    asked = "; remembered: " + " ".join(f"{name}={value}" for name, value in settings.items()) if settings else ""
    return [Finding(True, "set-up", cuda + asked)]


def _cuda() -> List[Finding]:
    try:
        gpus = cuda.cuda_devices()
    except DeviceError as error:
        return [Finding(None, "CUDA devices", "none", str(error))]
    return [
        Finding(
            True,
            f"CUDA device {d.index}",
            f"{d.name}, compute capability {d.capability[0]}.{d.capability[1]}, "
            f"{d.memory_total / 2**30:.1f} GiB ({d.memory_free / 2**30:.1f} free), driver for CUDA {d.driver_version}; "
            + f"MXNet itself {_mxnet_on(d)}",
        )
        for d in gpus
    ]


def _mxnet_on(device: cuda.CudaDevice) -> str:
    refusal = devices.mxnet_refusal(device)
    return "can use it" if refusal is None else f"cannot use it, {refusal}"


def _dataset() -> List[Finding]:
    try:
        folder = locate.find()
    except DataError as error:
        return [Finding(False, "dataset", "damaged or missing", str(error))]
    if folder is None:
        return [Finding(None, "dataset", "not here; the built-in set serves", "fashion-infer data fetch")]
    return [Finding(True, "dataset", str(folder))]


def _models() -> List[Finding]:
    findings = []
    for model in zoo.MODELS.values():
        try:
            model.load()
            findings.append(Finding(True, f"model {model.name}", str(model.path)))
        except FashionInferError as error:
            findings.append(Finding(False, f"model {model.name}", "broken", str(error)))
    return findings


def _sandbox() -> List[Finding]:
    layers = sandbox.available()
    advice = "" if layers.isolated else "apt install bubblewrap, or pip install 'fashion-infer[grade]'"
    return [Finding(True if layers.isolated else None, "sandbox for `grade`", layers.words, advice)]
