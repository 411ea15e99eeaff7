"""Checks of the command `doctor`: whether each part of the installation works and, if not, what to do about it."""

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
from .library import bindings, kernels
from .library import devices as cuda


class InstalledPart(NamedTuple):
    ok: Optional[bool]  # None if the part is optional and absent
    what: str
    found: str  # version, path or problem
    advice: str = ""  # what the user can do about a problem


def examine() -> List[InstalledPart]:
    """Examine all parts. A broken part is in the returned list and raises nothing."""
    parts: Tuple[Tuple[str, Callable[[], List[InstalledPart]]], ...] = (
        ("Python", _python),
        ("MXNet", _mxnet_build),
        ("operator library", _library),
        ("set-up", _set_up),
        ("CUDA devices", _cuda),
        ("dataset", _dataset),
        ("models", _models),
    )
    findings: List[InstalledPart] = []
    for what, part in parts:
        try:
            findings += part()
        except (FashionInferError, ImportError) as error:
            problem, _, advice = str(error).rpartition(": ")
            findings.append(InstalledPart(False, what, problem or advice, advice if problem else ""))
    return findings


def _python() -> List[InstalledPart]:
    return [
        InstalledPart(True, "Python", f"{platform.python_version()} on {platform.machine()}"),
        InstalledPart(True, "NumPy", np.__version__),
    ]


def _mxnet_build() -> List[InstalledPart]:
    mx = _mxnet.load()
    return [InstalledPart(True, "MXNet", f"{mx.__version__}, {_mxnet.build()} build")]


def _library() -> List[InstalledPart]:
    plugin.load_operators()
    findings = [
        InstalledPart(True, "operator library", str(bindings.library_path())),
        InstalledPart(True, "library build", bindings.build_info()),
        InstalledPart(True, "CPU", f"{bindings.cpu_isa()}, {bindings.thread_count()} threads"),
    ]
    for backend in ("cpu", "gpu"):
        names = ", ".join(kernel.name for kernel in kernels.table(backend))
        advice = "" if names else "`make setup BACKEND=gpu` builds them"
        findings.append(InstalledPart(True if names else None, f"{backend} kernels", names or "none", advice))
    return findings


def _set_up() -> List[InstalledPart]:
    record = Path(sys.prefix) / "fashion-infer.json"
    if not record.is_file():
        return []
    recorded = json.loads(record.read_text())
    asked = recorded.get("asked", {})
    words = ["with CUDA" if recorded.get("library", {}).get("cuda") else "without CUDA"]
    words += [f"extras {', '.join(asked['extras'])}"] if asked.get("extras") else []
    words += [f"{name}={value}" for name, value in asked.get("settings", {}).items()]
    return [InstalledPart(True, "set-up", "; ".join(words))]


def _cuda() -> List[InstalledPart]:
    try:
        gpus = cuda.cuda_devices()
    except DeviceError as error:
        return [InstalledPart(None, "CUDA devices", "none", str(error))]
    return [
        InstalledPart(
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


def _dataset() -> List[InstalledPart]:
    try:
        folder = locate.find()
    except DataError as error:
        return [InstalledPart(False, "dataset", "damaged or missing", str(error))]
    if folder is None:
        return [InstalledPart(None, "dataset", "not found; the built-in set is used", "fashion-infer data fetch")]
    return [InstalledPart(True, "dataset", str(folder))]


def _models() -> List[InstalledPart]:
    broken = []
    for model in zoo.MODELS.values():
        try:
            model.load()
        except FashionInferError as error:
            broken.append(InstalledPart(False, f"model {model.name}", "broken", str(error)))
    return broken or [InstalledPart(True, "models", f"all {len(zoo.MODELS)} can be read")]
