"""The formats of kernel files: tests that recognise each format, and the years or programs that used it."""

import re
from pathlib import Path
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ..errors import DeviceError, UsageError
from ..system import inputs
from . import neighbours, signs, source


class KernelFormat(NamedTuple):
    """A calling convention. A format without an adapter is not compiled."""

    name: str
    years: str
    backend: str  # "cpu" or "gpu"; "any" if the file does not determine it
    looked_for: str  # description for messages
    adapter: Optional[str]  # file of custom_ops/submission/adapters
    template: Optional[str]  # file of templates/, for `kernel new`
    test: signs.Test
    linked: bool = False  # the file is compiled separately and linked; otherwise the adapter includes it


class KernelFile(NamedTuple):
    """A recognised kernel file: the input for building, loading, judging and timing."""

    path: Path
    format: KernelFormat
    defines: Tuple[str, ...]  # names for the compiler's option -D
    backend: str  # "cpu" or "gpu"; "any" if neither the file nor the caller determines it

    @property
    def name(self) -> str:
        return self.path.name

    def placed(self) -> "KernelFile":
        """Return the same file with the backend that it runs on here.

        A prebuilt library reports its backend, or is for the GPU if it names the CUDA runtime. A Python file runs on
        the GPU if there is one.
        """
        if self.backend != "any":
            return self
        if self.format.name == "prebuilt":
            from . import plugin

            return self._replace(backend=plugin.backend_of(self.path))
        from ..library import devices, kernels

        try:
            return self._replace(backend="gpu" if kernels.table("gpu") and devices.cuda_devices() else "cpu")
        except DeviceError:
            return self._replace(backend="cpu")


MOST = 1 << 30  # size limit of a kernel file in bytes; a library may contain all of cuBLAS
# The first format that matches is used. A file with a GPU part and a CPU part is therefore for the GPU.
FORMATS = (
    KernelFormat(
        "mxnet-gpu",
        "fa2017 to fa2019",
        "gpu",
        "forward<gpu, float>(...), or the template, over mshadow::Tensor<gpu, 4, ...>",
        "mxnet_gpu.cu",
        "new-forward.cuh",
        signs.mxnet_gpu,
    ),
    KernelFormat(
        "minidnn-2021",
        "sp2021 to fa2022, fa2024, fa2025",
        "gpu",
        "GPUInterface::conv_forward_gpu_prolog with 12 parameters",
        "minidnn_phases.cu",
        "new-forward-2021.cu",
        signs.minidnn(12),
    ),
    KernelFormat(
        "minidnn-2023",
        "fa2023",
        "gpu",
        "GPUInterface::conv_forward_gpu_prolog with 13 parameters, the stride last",
        "minidnn_phases.cu",
        "new-forward-2023.cu",
        signs.minidnn(13, "FOPS_STRIDE"),
    ),
    KernelFormat(
        "minidnn-2020",
        "fa2020",
        "gpu",
        "GPUInterface::conv_forward_gpu with 9 parameters and no prolog",
        "minidnn_2020.cu",
        "new-forward-2020.cu",
        signs.minidnn_2020,
    ),
    KernelFormat(
        "c-gpu",
        "any; the one to write today",
        "gpu",
        'extern "C" void conv_forward(x, k, y, B, M, C, H, W, K[, stream]) in a .cu file',
        "c_gpu.cu",
        "conv.cu",
        signs.c_gpu,
        True,
    ),
    KernelFormat(
        "leetgpu",
        "LeetGPU's 2D convolution",
        "gpu",
        'extern "C" void solve(...) with 7 parameters',
        "leetgpu.cu",
        "solve.cu",
        signs.leetgpu,
        True,
    ),
    KernelFormat(
        "mxnet-cpu",
        "fa2017 to fa2019",
        "cpu",
        "a template forward(...) over mshadow::Tensor<cpu, 4, ...>",
        "mxnet_cpu.cpp",
        "new-forward.h",
        signs.mxnet_cpu,
    ),
    KernelFormat(
        "minidnn-cpu",
        "fa2020 to fa2025",
        "cpu",
        "conv_forward_cpu(y, x, k, B, M, C, H, W, K[, S])",
        "minidnn_cpu.cpp",
        "cpu-new-forward.cc",
        signs.minidnn_cpu,
    ),
    KernelFormat(
        "c-cpu",
        "any; the one to write today",
        "cpu",
        'extern "C" void conv_forward(x, k, y, B, M, C, H, W, K) in a .c or .cpp file',
        "c_cpu.cpp",
        "conv.cpp",
        signs.c_cpu,
        True,
    ),
    KernelFormat(
        "python",
        "any; KernelBot's and LeetGPU's too",
        "any",
        "conv_forward(x, k), custom_kernel(data) or solve with 7 parameters in a .py file",
        None,
        "conv.py",
        signs.python,
    ),
    KernelFormat(
        "prebuilt",
        "any",
        "any",
        "a shared library that exports conv_forward or fops_kernel_plugin_main",
        None,
        None,
        signs.never,
    ),
)

# Shorter names, for the format that a newcomer usually means.
ALIASES = {"mxnet": "mxnet-gpu", "minidnn": "minidnn-2021", "c": "c-gpu"}
# Descriptions for the message that a file has no known format; `kernel formats` lists all formats.
_MARKS = (
    "forward<gpu, float>",
    "forward over Tensor<cpu, 4>",
    "GPUInterface::conv_forward_gpu",
    "conv_forward_cpu",
    'extern "C" conv_forward',
    'extern "C" solve',
    "Python's conv_forward, custom_kernel or solve",
)
_EXPORTS = (b"\0conv_forward\0", b"\0fops_kernel_plugin_main\0")


def find(name: str) -> KernelFormat:
    """Return the format with a name; raise UsageError, which lists all names, if the name is unknown."""
    for entry in FORMATS:
        if entry.name == ALIASES.get(name, name):
            return entry
    raise UsageError(f"unknown format '{name}'; known: {', '.join(entry.name for entry in FORMATS)}")


def insisted(files: Sequence[str], names: Optional[str]) -> List[Optional[str]]:
    """Parse --format: one name for all kernel files, or one per file, comma-separated; UsageError if it is wrong."""
    if names is None:
        return [None] * len(files)
    known: List[Optional[str]] = [find(name.strip()).name for name in names.split(",")]
    if not files:
        raise UsageError("--format needs a kernel file, as in --kernel ./new-forward.cu")
    if len(known) not in (1, len(files)):
        raise UsageError(
            f"--format names {len(known)} formats for {len(files)} kernel files: name one for all, or one for each"
        )
    return known * len(files) if len(known) == 1 else known


def template(name: str) -> str:
    """Return the source of a naive kernel in a format; UsageError for an unknown format or one without source code."""
    entry = find(name)
    if entry.template is None:
        raise UsageError(f"format {entry.name} has no source to start from: use c-gpu or c-cpu")
    return (Path(__file__).parent / "templates" / entry.template).read_text()


def _near_miss(code: str, suffix: str) -> str:
    """Return the end of a message that names the part of the file that is almost a kernel."""
    if suffix == ".py":
        return signs.python_near_miss(code)
    if source.definitions(code, "solution"):
        return (
            " (it has solution, as Tensara's problems do: their convolutions pad with zeros, and these layers do not)"
        )
    for name in (signs.MEMBER + "_prolog", signs.MEMBER, "conv_forward_cpu", "conv_forward"):
        for function in source.definitions(code, name):
            linkage = ', without extern "C"' if name == "conv_forward" and not re.search(r'extern\s*"C"', code) else ""
            return f" (it has {function.name} with {len(function.parameters)} parameters{linkage})"
    return ""


def _check_parameters(path: Path, code: str) -> None:
    """Raise UsageError if plain C's function has parameters of other types, or in another order."""
    functions = [f for f in source.definitions(code, "conv_forward") if len(f.parameters) in (9, 10)]
    wrong = signs.wrong_parameters(functions[0].parameters) if functions else ""
    if wrong:
        raise UsageError(f"{path}: {wrong}")


def recognise(path, insist: Optional[str] = None, backend: Optional[str] = None) -> KernelFile:
    """Recognise a file's format by its content, or use the format `insist`; UsageError if the format is unknown.

    `backend` "cpu" or "gpu" selects between the formats of a file that has both.
    """
    path = Path(path)
    backend = None if backend == "auto" else backend
    wanted = [find(insist)] if insist else list(FORMATS)
    if backend:
        if insist and wanted[0].backend not in (backend, "any"):
            raise UsageError(f"format {wanted[0].name} is not for the {backend.upper()}")
        wanted = [entry for entry in wanted if entry.backend in (backend, "any")]
    data = inputs.read(path, MOST, UsageError, "the kernel file ")
    if data.startswith(b"\x7fELF"):
        prebuilt = find("prebuilt")
        # For a prebuilt library, a plain C format's name determines whether pointers are on the host or on the device.
        where = {"c-cpu": "cpu", "c-gpu": "gpu"}.get(find(insist).name) if insist else None
        exported = any(name in data for name in _EXPORTS)
        if exported and (where or prebuilt in wanted):
            return KernelFile(path, prebuilt, (), where or backend or prebuilt.backend)
        if exported and insist:
            raise UsageError(f"{path} is a compiled library, and no file of format {insist}: leave --format out")
        raise UsageError(f"{path} is a program or library without a kernel: looked for {prebuilt.looked_for}")
    text = data.decode("utf-8-sig", "replace")  # Python takes a byte order mark, too
    suffix = path.suffix.lower()
    code = text if suffix == ".py" else source.stripped(text)
    # Read neighbours too: the file may only include the kernel's source. Files outside its folder are not read, because
    # the file may be untrusted.
    beside = [] if suffix == ".py" else neighbours.of(path, path.resolve().parent).included
    whole = "\n".join([code, *(source.stripped(neighbours.text_of(file)) for file in beside)])
    for seen, entry in [(seen, entry) for seen in dict.fromkeys((code, whole)) for entry in wanted]:
        defines = entry.test(seen, suffix)
        if defines is not None:
            if entry.name in ("c-cpu", "c-gpu"):
                _check_parameters(path, seen)
            return KernelFile(
                path, entry, tuple(defines), (backend if entry.backend == "any" else None) or entry.backend
            )
    looked_for = wanted[0].looked_for if insist else ", ".join(_MARKS)
    other = next((entry for entry in FORMATS if entry not in wanted and entry.test(whole, suffix) is not None), None)
    where = f", for the {other.backend.upper()}" if other and other.backend != "any" else ""
    near = f" (it has {other.name}{where})" if other else _near_miss(code, suffix)
    plain = "python" if suffix == ".py" else "c-gpu" if suffix in (".cu", ".cuh") and backend != "cpu" else "c-cpu"
    start = insist if insist and wanted[0].template else plain
    raise UsageError(
        f"{path} has no kernel of {'format ' + insist if insist else 'a known format'}{near}: looked for {looked_for}; "
        f"`fashion-infer kernel new --format {start}` writes one to start from"
    )
