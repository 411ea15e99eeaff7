"""What `doctor` looks at: each part of an installation, with ok or what to do about it."""

import platform
from typing import Callable, List, NamedTuple, Optional, Tuple

import numpy as np

from . import _mxnet, devices
from .checkpoints import zoo
from .data import dataset
from .errors import DataError, DeviceError, FashionInferError
from .library import operators
from .resources import library_path


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
        ("CUDA devices", _cuda),
        ("dataset", _dataset),
        ("models", _models),
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
    operators.load_into_mxnet()
    findings = [
        Finding(True, "operator library", f"{library_path()}\n{operators.build_info()}"),
        Finding(True, "CPU", f"{operators.cpu_isa()}, {operators.threads()} threads"),
    ]
    for backend in ("cpu", "gpu"):
        names = ", ".join(kernel.name for kernel in operators.kernels(backend))
        advice = "" if names else "rebuild where nvcc is found"
        findings.append(Finding(True if names else None, f"{backend} kernels", names or "none", advice))
    return findings


def _cuda() -> List[Finding]:
    try:
        found = operators.cuda_devices()
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
        for d in found
    ]


def _mxnet_on(device: operators.CudaDevice) -> str:
    refusal = devices.mxnet_refusal(device)
    return "can use it" if refusal is None else f"cannot use it, {refusal}"


def _dataset() -> List[Finding]:
    try:
        folder = dataset.find()
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
