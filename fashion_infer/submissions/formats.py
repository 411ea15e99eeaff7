"""The formats of kernel files: what each looks like, who had it, and which one a file has."""

import ast
import re
from pathlib import Path
from typing import Callable, List, NamedTuple, Optional, Tuple

from .. import inputs
from ..errors import UsageError
from . import source

# What a file must define, as a test on its stripped source: the compiler's definitions for the adapter, None for no.
Test = Callable[[str, str], Optional[Tuple[str, ...]]]


class Format(NamedTuple):
    """A calling convention. A format without an adapter is not compiled by us."""

    name: str
    years: str
    backend: str  # "cpu" or "gpu"; "any" where the file does not say
    looked_for: str  # in words, for messages
    adapter: Optional[str]  # file of custom_ops/submission/adapters
    template: Optional[str]  # file of templates/, for `kernel new`
    test: Test
    linked: bool = False  # the file is compiled by itself and linked, where others are included by the adapter


class Recognised(NamedTuple):
    """A file with its format."""

    path: Path
    format: Format
    defines: Tuple[str, ...]  # names for the compiler's -D


_MEMBER = r"GPUInterface\s*::\s*conv_forward_gpu"
_STREAM = re.compile(r"\bcudaStream_t\b")
_CPU_TENSOR = re.compile(r"\bTensor\s*<\s*(?:\w+\s*::\s*)*(?:cpu|xpu)\s*,\s*4")


def _mxnet_gpu(code, suffix):
    return () if re.search(r"\bforward\s*<\s*(?:\w+\s*::\s*)?gpu\s*,\s*float\s*>\s*\(", code) else None


def _mxnet_cpu(code, suffix):
    for function in source.definitions(code, "forward"):
        if function.parameters and _CPU_TENSOR.search(function.parameters[0]):
            return ()
    return None


def _const(parameter: str) -> bool:
    return bool(re.search(r"\bconst\b", parameter.split("*")[0]))


def _host_pointers(parameters: List[str]) -> Tuple[str, ...]:
    """How the file declares its host pointers: the years differ, and a class member must match to the letter."""
    defines = ("FOPS_HOST_OUTPUT_CONST",) if _const(parameters[0]) else ()
    return (*defines, "FOPS_HOST_POINTERS_CONST") if _const(parameters[1]) else defines


def _minidnn(count: int, *more: str) -> Test:
    def test(code, suffix):
        for function in source.definitions(code, _MEMBER + "_prolog"):
            if len(function.parameters) == count:
                return (*more, *_host_pointers(function.parameters))
        return None

    return test


def _minidnn_2020(code, suffix):
    if re.search(r"\bconv_forward_gpu_prolog\b", code):
        return None
    for function in source.definitions(code, _MEMBER):
        if len(function.parameters) == 9:
            return ("FOPS_COPIES_INSIDE", *_host_pointers(function.parameters))
    return None


def _minidnn_cpu(code, suffix):
    for function in source.definitions(code, "conv_forward_cpu"):
        if len(function.parameters) in (9, 10):
            return ("FOPS_STRIDE",) if len(function.parameters) == 10 else ()
    return None


def _c(code, suffix):
    if suffix != ".c" and not re.search(r'extern\s*"C"', code):
        return None
    counts = [f for f in source.definitions(code, "conv_forward") if len(f.parameters) in (9, 10)]
    return counts[0].parameters if counts else None


def _c_gpu(code, suffix):
    parameters = _c(code, suffix)
    if not parameters or (suffix not in (".cu", ".cuh") and not re.search(r"\bcuda_runtime|\bcudaStream_t", code)):
        return None
    if len(parameters) == 10:
        return ("FOPS_STREAM",) if _STREAM.search(parameters[9]) else None
    return ()


def _c_cpu(code, suffix):
    parameters = _c(code, suffix)
    return () if parameters and len(parameters) == 9 and suffix not in (".cu", ".cuh") else None


def _python(code, suffix):
    if suffix != ".py":
        return None
    try:
        names = {node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)}
    except (SyntaxError, ValueError):
        return None
    return () if names & {"conv_forward", "custom_kernel"} else None


def _never(code, suffix):
    return None


# In this order: a file that has both parts is one for the GPU.
MOST = 1 << 30  # bytes of a kernel file, which may be a library with all of cuBLAS in it
FORMATS = (
    Format("mxnet-gpu", "fa2017 to fa2019", "gpu", "a specialisation forward<gpu, float>(...) over mshadow::Tensor",
           "mxnet_gpu.cu", "new-forward.cuh", _mxnet_gpu),
    Format("minidnn-2021", "sp2021 to fa2022, fa2024, fa2025", "gpu",
           "GPUInterface::conv_forward_gpu_prolog with 12 parameters", "minidnn_phases.cu", "new-forward-2021.cu",
           _minidnn(12)),
    Format("minidnn-2023", "fa2023", "gpu", "GPUInterface::conv_forward_gpu_prolog with 13 parameters, the stride last",
           "minidnn_phases.cu", "new-forward-2023.cu", _minidnn(13, "FOPS_STRIDE")),
    Format("minidnn-2020", "fa2020", "gpu", "GPUInterface::conv_forward_gpu with 9 parameters and no prolog",
           "minidnn_2020.cu", "new-forward-2020.cu", _minidnn_2020),
    Format("c-gpu", "any; the one to write today", "gpu",
           'extern "C" void conv_forward(x, k, y, B, M, C, H, W, K[, stream]) in a .cu file', "c_gpu.cu", "conv.cu",
           _c_gpu, True),
    Format("mxnet-cpu", "fa2017 to fa2019", "cpu", "a template forward(...) over mshadow::Tensor<cpu, 4, ...>",
           "mxnet_cpu.cpp", "new-forward.h", _mxnet_cpu),
    Format("minidnn-cpu", "fa2020 to fa2025", "cpu", "conv_forward_cpu(y, x, k, B, M, C, H, W, K[, S])",
           "minidnn_cpu.cpp", "cpu-new-forward.cc", _minidnn_cpu),
    Format("c-cpu", "any; the one to write today", "cpu",
           'extern "C" void conv_forward(x, k, y, B, M, C, H, W, K) in a .c or .cpp file', "c_cpu.cpp", "conv.cpp",
           _c_cpu, True),
    Format("python", "any; KernelBot's too", "any", "def conv_forward(x, k) or def custom_kernel(data) in a .py file",
           None, "conv.py", _python),
    Format("prebuilt", "any", "any", "a shared library that exports conv_forward or fops_kernel_plugin_main", None,
           None, _never),
)  # fmt: skip

# Shorter names, for the one of several that a newcomer means.
ALIASES = {"mxnet": "mxnet-gpu", "minidnn": "minidnn-2021", "c": "c-gpu"}
# What a message names when no format fits; `kernel formats` has it all.
_MARKS = (
    "forward<gpu, float>", "forward over Tensor<cpu, 4>", "GPUInterface::conv_forward_gpu", "conv_forward_cpu",
    'extern "C" conv_forward', "Python's conv_forward or custom_kernel",
)  # fmt: skip
_EXPORTS = (b"\0conv_forward\0", b"\0fops_kernel_plugin_main\0")


def find(name: str) -> Format:
    """The format of that name; UsageError with all names when there is none."""
    for entry in FORMATS:
        if entry.name == ALIASES.get(name, name):
            return entry
    raise UsageError(f"unknown format '{name}'; known: {', '.join(entry.name for entry in FORMATS)}")


def template(name: str) -> str:
    """A naive kernel to start from in that format.

    Raises
    ------
    UsageError
        For an unknown format, and one that has no source.
    """
    entry = find(name)
    if entry.template is None:
        raise UsageError(f"format {entry.name} has no source to start from: take c-gpu or c-cpu")
    return (Path(__file__).parent / "templates" / entry.template).read_text()


def _near_miss(code: str, suffix: str) -> str:
    """What the file has that is almost a kernel, to end a message with."""
    if suffix == ".py":
        return ""
    for name in (_MEMBER + "_prolog", _MEMBER, "conv_forward_cpu", "conv_forward"):
        for function in source.definitions(code, name):
            linkage = ', without extern "C"' if name == "conv_forward" and not re.search(r'extern\s*"C"', code) else ""
            return f" (it has {function.name} with {len(function.parameters)} parameters{linkage})"
    return ""


def recognise(path, insist: Optional[str] = None, backend: Optional[str] = None) -> Recognised:
    """Which format a file has, by its content.

    Parameters
    ----------
    path
        The file.
    insist
        Name of a format: what the file is taken for, whatever else it looks like.
    backend
        "cpu" or "gpu": only formats of that backend, for a file that has both.

    Raises
    ------
    UsageError
        When there is no such file, or it is none of these; the message says what was looked for.
    """
    path = Path(path)
    wanted = [find(insist)] if insist else list(FORMATS)
    if backend:
        wanted = [entry for entry in wanted if entry.backend in (backend, "any")]
    data = inputs.read(path, MOST, UsageError, "the kernel file ")
    if data.startswith(b"\x7fELF"):
        prebuilt = find("prebuilt")
        if prebuilt in wanted and any(name in data for name in _EXPORTS):
            return Recognised(path, prebuilt, ())
        raise UsageError(f"{path} is a program or library that is no kernel: looked for {prebuilt.looked_for}")
    text = data.decode("utf-8", "replace")
    suffix = path.suffix.lower()
    code = text if suffix == ".py" else source.stripped(text)
    for entry in wanted:
        defines = entry.test(code, suffix)
        if defines is not None:
            return Recognised(path, entry, tuple(defines))
    looked_for = wanted[0].looked_for if insist else ", ".join(_MARKS)
    near = _near_miss(code, suffix)
    start = insist or ("c-cpu" if backend == "cpu" else "c-gpu")
    raise UsageError(
        f"{path} has no kernel of {'format ' + insist if insist else 'a known format'}: looked for {looked_for}{near}; "
        f"`fashion-infer kernel new --format {start}` writes one to start from"
    )
