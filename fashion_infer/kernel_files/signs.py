"""Tests that recognise a kernel file's format from its stripped source, one for each format."""

import ast
import re
from typing import Callable, List, Optional, Tuple

from . import source

# A test on the stripped source; returns the compiler's definitions for the adapter, or None if it does not match.
Test = Callable[[str, str], Optional[Tuple[str, ...]]]

MEMBER = r"GPUInterface\s*::\s*conv_forward_gpu"
_STREAM = re.compile(r"\bcudaStream_t\b")


def _over(devices: str, code: str) -> bool:
    """Return whether a `forward` begins with a 4-dimensional Tensor of one of `devices`, a regular expression."""
    tensor = re.compile(rf"\bTensor\s*<\s*(?:\w+\s*::\s*)*(?:{devices})\s*,\s*4")
    found = source.definitions(code, "forward")
    return any(function.parameters and tensor.search(function.parameters[0]) for function in found)


def mxnet_gpu(code, suffix):
    specialised = re.search(r"\bforward\s*<\s*(?:\w+\s*::\s*)?gpu\s*,\s*float\s*>\s*\(", code)
    # The earliest files of fa2017 have only the template.
    return () if specialised or _over("gpu", code) else None


def mxnet_cpu(code, suffix):
    return () if _over("cpu|xpu", code) else None


def _const(parameter: str) -> bool:
    return bool(re.search(r"\bconst\b", parameter.split("*")[0]))


def _host_pointers(parameters: List[str]) -> Tuple[str, ...]:
    """Return compiler definitions for the file's declarations of host pointers, which differ by year."""
    defines = ("FOPS_HOST_OUTPUT_CONST",) if _const(parameters[0]) else ()
    return (*defines, "FOPS_HOST_POINTERS_CONST") if _const(parameters[1]) else defines


def minidnn(count: int, *more: str) -> Test:
    def test(code, suffix):
        for function in source.definitions(code, MEMBER + "_prolog"):
            if len(function.parameters) == count:
                return (*more, *_host_pointers(function.parameters))
        return None

    return test


def minidnn_2020(code, suffix):
    if re.search(r"\bconv_forward_gpu_prolog\b", code):
        return None
    for function in source.definitions(code, MEMBER):
        if len(function.parameters) == 9:
            return ("FOPS_COPIES_INSIDE", *_host_pointers(function.parameters))
    return None


def minidnn_cpu(code, suffix):
    for function in source.definitions(code, "conv_forward_cpu"):
        if len(function.parameters) in (9, 10):
            return ("FOPS_STRIDE",) if len(function.parameters) == 10 else ()
    return None


def _c(code, suffix):
    if suffix != ".c" and not re.search(r'extern\s*"C"', code):
        return None
    counts = [f for f in source.definitions(code, "conv_forward") if len(f.parameters) in (9, 10)]
    return counts[0].parameters if counts else None


_WIDER = re.compile(r"\b(?:double|half|__half|float|long|short|char|size_t|u?int(?:8|16|64)_t|ptrdiff_t)\b|\*")
_DATA, _WEIGHTS = (
    re.compile(rf"\b(?:{names})$", re.IGNORECASE)
    for names in ("x|in|input|data|image", "k|w|kernel|weights?|mask|filters?")
)
_OUTPUT = re.compile(r"\b(?:y|out|output|result)\w*$", re.IGNORECASE)


def wrong_parameters(parameters: List[str]) -> str:
    """Describe what is wrong with conv_forward's parameters, which the linker does not compare; "" if right."""
    for number, parameter in enumerate(parameters[:3]):
        if re.search(r"\b(?:double|half|__half|int|char|void)\b", parameter) and "*" in parameter:
            return f"parameter {number + 1} is `{parameter}`, where float* belongs"
    constant = [_const(parameter) for parameter in parameters[:3]]
    names = [re.sub(r"__restrict(?:__)?|\[\]", "", parameter).strip() for parameter in parameters[:3]]
    named = [bool(_OUTPUT.search(name)) for name in names]
    if (constant[2] and not constant[0]) or (named[0] and not named[2]):
        return "the output comes third, as in conv_forward(x, k, y, B, M, C, H, W, K), and not first"
    if _WEIGHTS.search(names[0]) and _DATA.search(names[1]):
        return "the data comes first and the weights second, as in conv_forward(x, k, y, B, M, C, H, W, K)"
    for number, parameter in enumerate(parameters[3:9], start=4):
        if _WIDER.search(parameter):
            return f"parameter {number} is `{parameter}`, where int belongs"
    return ""


def c_gpu(code, suffix):
    parameters = _c(code, suffix)
    if not parameters or (suffix not in (".cu", ".cuh") and not re.search(r"\bcuda_runtime|\bcudaStream_t", code)):
        return None
    if len(parameters) == 10:
        return ("FOPS_STREAM",) if _STREAM.search(parameters[9]) else None
    return ()


def leetgpu(code, suffix):
    # A file that includes solve.h, whose name `stripped` removed, gets its linkage from there.
    if not re.search(r'extern\s*"C"|#\s*include\s*""', code):
        return None
    return () if any(len(f.parameters) == 7 for f in source.definitions(code, "solve")) else None


def c_cpu(code, suffix):
    parameters = _c(code, suffix)
    return () if parameters and len(parameters) == 9 and suffix not in (".cu", ".cuh") else None


def python(code, suffix):
    if suffix != ".py":
        return None
    try:
        names = {name for node in ast.parse(code).body for name in _bound_names(node)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: deep nesting
        return None
    return () if names & {"conv_forward", "custom_kernel", "solve"} else None


def python_near_miss(code: str) -> str:
    """Return what a Python file without a kernel has: an error, a class with `forward`, or its last function."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        return f"an error{f' in line {line}' if line else ''}: {getattr(error, 'msg', error)}"
    for node in body:
        if isinstance(node, ast.ClassDef) and "forward" in [getattr(inner, "name", "") for inner in node.body]:
            return f"the class {node.name}, but no conv_forward(x, k) that calls it"
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    if functions:
        return f"{functions[-1].name}({', '.join(argument.arg for argument in functions[-1].args.args)})"
    return "no function"


def _bound_names(node: ast.stmt) -> List[str]:
    """Return the names that a statement binds by `def`, by assignment to plain names, or by `from ... import`."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    return []
