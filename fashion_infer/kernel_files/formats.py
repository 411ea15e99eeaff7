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
    language: str  # "CUDA", "C++", "Python" or "machine code"
    signature: str  # the function that the file defines, for messages
    years: str  # when the format was used, or by whom
    test: signs.Test
    editions: Tuple[str, ...] = ()  # the networks for which the course used the format; () if it never did
    phases: bool = False  # prolog, forward and epilog instead of one function
    thousands: bool = False  # a file may need multiples of 1,000 images
    host_memory: bool = False  # on the GPU: the file is called with host tensors, and copies them itself
    zeroed: bool = False  # the output is zero before a call
    linked: bool = False  # the file is compiled separately and linked by name; otherwise the adapter includes it
    adapter: Optional[str] = None  # file of custom_ops/submission/adapters
    template: Optional[str] = None  # file of templates/, for `kernel new`

    @property
    def backend(self) -> str:
        """Where such files run, "cpu" or "gpu"; "any" if the file does not determine it."""
        return {"CUDA": "gpu", "C++": "cpu"}.get(self.language, "any")


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
        """Return the file with its backend here: a library's own, or for Python the GPU if there is one."""
        if self.backend != "any":
            return self
        if self.format.language == "machine code":
            from . import plugin

            return self._replace(backend=plugin.backend_of(self.path))
        from ..library import devices, kernels

        try:
            return self._replace(backend="gpu" if kernels.table("gpu") and devices.cuda_devices() else "cpu")
        except DeviceError:
            return self._replace(backend="cpu")


MOST = 1 << 30  # size limit of a kernel file in bytes; a library may contain all of cuBLAS
_MXNET_YEARS, _MINIDNN_YEARS = ("fa2017", "sp2018", "fa2018", "sp2019", "fa2019"), ("fa2020",)
_PROLOG = "GPUInterface::conv_forward_gpu_prolog"
# The first format that matches is used. A file with a GPU part and a CPU part is therefore for the GPU.
FORMATS = (
    KernelFormat(
        "mxnet-gpu",
        language="CUDA",
        signature="forward<gpu, float>(y, x, k), all of them mshadow::Tensor<gpu, 4, float>",
        years="fa2017 to fa2019",
        test=signs.mxnet_gpu,
        editions=_MXNET_YEARS,
        zeroed=True,
        thousands=True,
        adapter="mxnet_gpu.cu",
        template="new-forward.cuh",
    ),
    KernelFormat(
        "minidnn-2021",
        language="CUDA",
        signature=f"{_PROLOG}(y, x, k, &device_y, &device_x, &device_k, B, M, C, H, W, K)",
        years="sp2021 to fa2022, fa2024, fa2025",
        test=signs.minidnn(12),
        editions=_MINIDNN_YEARS,
        phases=True,
        thousands=True,
        host_memory=True,
        adapter="minidnn_phases.cu",
        template="new-forward-2021.cu",
    ),
    KernelFormat(
        "minidnn-2023",
        language="CUDA",
        signature=f"{_PROLOG}(y, x, k, &device_y, &device_x, &device_k, B, M, C, H, W, K, stride)",
        years="fa2023",
        test=signs.minidnn(13, "FOPS_STRIDE"),
        editions=_MINIDNN_YEARS,
        phases=True,
        thousands=True,
        host_memory=True,
        adapter="minidnn_phases.cu",
        template="new-forward-2023.cu",
    ),
    KernelFormat(
        "minidnn-2020",
        language="CUDA",
        signature="GPUInterface::conv_forward_gpu(y, x, k, B, M, C, H, W, K), and no prolog",
        years="fa2020",
        test=signs.minidnn_2020,
        editions=_MINIDNN_YEARS,
        thousands=True,
        host_memory=True,
        adapter="minidnn_2020.cu",
        template="new-forward-2020.cu",
    ),
    KernelFormat(
        "c-gpu",
        language="CUDA",
        signature='extern "C" conv_forward(x, k, y, B, M, C, H, W, K[, stream])',
        years="any; the one to write today",
        test=signs.c_gpu,
        linked=True,
        adapter="c_gpu.cu",
        template="conv.cu",
    ),
    KernelFormat(
        "leetgpu",
        language="CUDA",
        signature='extern "C" solve(x, k, y, H, W, K, K)',
        years="LeetGPU's 2D convolution",
        test=signs.leetgpu,
        linked=True,
        adapter="leetgpu.cu",
        template="solve.cu",
    ),
    KernelFormat(
        "mxnet-cpu",
        language="C++",
        signature="a template forward(y, x, k), all of them mshadow::Tensor<cpu, 4, DType>",
        years="fa2017 to fa2019",
        test=signs.mxnet_cpu,
        editions=_MXNET_YEARS,
        zeroed=True,
        adapter="mxnet_cpu.cpp",
        template="new-forward.h",
    ),
    KernelFormat(
        "minidnn-cpu",
        language="C++",
        signature="conv_forward_cpu(y, x, k, B, M, C, H, W, K[, stride])",
        years="fa2020 to fa2025",
        test=signs.minidnn_cpu,
        editions=_MINIDNN_YEARS,
        adapter="minidnn_cpu.cpp",
        template="cpu-new-forward.cc",
    ),
    KernelFormat(
        "c-cpu",
        language="C++",
        signature='extern "C" conv_forward(x, k, y, B, M, C, H, W, K)',
        years="any; the one to write today",
        test=signs.c_cpu,
        linked=True,
        adapter="c_cpu.cpp",
        template="conv.cpp",
    ),
    KernelFormat(
        "python",
        language="Python",
        signature="conv_forward(x, k), custom_kernel(data) or solve(x, k, y, H, W, K, K)",
        years="any; KernelBot's and LeetGPU's too",
        test=signs.python,
        template="conv.py",
    ),
    KernelFormat(
        "prebuilt",
        language="machine code",
        signature="a shared library that exports conv_forward or fops_kernel_plugin_main",
        years="any",
        test=lambda code, suffix: None,
    ),
)

# Shorter names, for the format that a newcomer usually means.
ALIASES = {"mxnet": "mxnet-gpu", "minidnn": "minidnn-2021", "c": "c-gpu"}
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


def _nearest(entries: Sequence[KernelFormat], code: str) -> Tuple[KernelFormat, str]:
    """Return the format that a file of no known format resembles most, and what was found in the file."""
    found = source.likely_kernel(code, [entry.signature for entry in entries])
    if found is None:
        return entries[0], "no function"
    same = [entry for entry in entries if found.called_in(entry.signature)]
    nearest = min(same or entries[:1], key=lambda entry: abs(entry.signature.count(",") + 1 - len(found.parameters)))
    note = ""
    if same and "extern" in nearest.signature and not re.search(r'extern\s*"C"', code):
        note = ' without extern "C"'
    elif found.name == "solution":
        note = " (Tensara's problems pad with zeros, and these layers do not)"
    return nearest, f"{found}{note}"


def _check_parameters(path: Path, code: str) -> None:
    functions = [f for f in source.definitions(code, "conv_forward") if len(f.parameters) in (9, 10)]
    wrong = signs.wrong_parameters(functions[0].parameters) if functions else ""
    if wrong:
        raise UsageError(f"{path}: {wrong}")


def recognise(path, insist: Optional[str] = None, backend: Optional[str] = None) -> KernelFile:
    """Recognise a file's format by its content, or use the format `insist`; UsageError if it is unknown."""
    path = Path(path)
    backend = None if backend == "auto" else backend
    wanted = [find(insist)] if insist else list(FORMATS)
    if backend:
        if insist and wanted[0].backend not in (backend, "any"):
            raise UsageError(f"format {wanted[0].name} is not for the {backend.upper()}")
        wanted = [entry for entry in wanted if entry.backend in (backend, "any")]
    data = inputs.read(path, MOST, UsageError, "the kernel file ")
    if re.search("[\udc80-\udcff]", str(path.resolve())):  # how Python shows bytes that are not UTF-8
        raise UsageError(f"the path {str(path)!a} is not UTF-8: rename the file or its folder")
    if data.startswith(b"\x7fELF"):
        prebuilt = find("prebuilt")
        # For a prebuilt library, a plain C format's name determines whether pointers are on the host or on the device.
        where = {"c-cpu": "cpu", "c-gpu": "gpu"}.get(find(insist).name) if insist else None
        exported = any(name in data for name in _EXPORTS)
        if exported and (where or prebuilt in wanted):
            return KernelFile(path, prebuilt, (), where or backend or prebuilt.backend)
        if exported and insist:
            raise UsageError(f"{path} is a compiled library, and no file of format {insist}: leave --format out")
        raise UsageError(f"{path} is a program or library without a kernel: looked for {prebuilt.signature}")
    suffix = path.suffix.lower()
    if suffix == ".py" and source.utf16(data):
        raise UsageError(f"{path} is UTF-16 text, which Python does not read: save it as UTF-8")
    text = source.text(data)
    code = text if suffix == ".py" else source.stripped(text)
    # Read neighbours too: the file may only include the kernel's source. Files outside its folder are not read, because
    # the file may be untrusted.
    beside = [] if suffix == ".py" else neighbours.of(path, path.resolve().parent).included
    whole = "\n".join([code, *(source.stripped(neighbours.text_of(file)) for file in beside)])
    for seen, entry in [(seen, entry) for seen in dict.fromkeys((code, whole)) for entry in wanted]:
        defines = entry.test(seen, suffix)
        if defines is not None:
            if entry.linked:
                _check_parameters(path, seen)
            return KernelFile(
                path, entry, tuple(defines), (backend if entry.backend == "any" else None) or entry.backend
            )
    other = next((entry for entry in FORMATS if entry not in wanted and entry.test(whole, suffix) is not None), None)
    on_gpu = backend == "gpu" or (backend is None and suffix in (".cu", ".cuh"))
    plain = find("python" if suffix == ".py" else "c-gpu" if on_gpu else "c-cpu")
    likely = wanted if insist else [plain, *(entry for entry in wanted if entry.language == plain.language)]
    if other:
        nearest, found = likely[0], f"format {other.name}, for the {other.backend.upper()}"
    elif suffix == ".py":
        nearest, found = likely[0], signs.python_near_miss(code)
    else:
        nearest, found = _nearest(likely, whole)
    raise UsageError(
        f"{path} has no kernel of {'format ' + insist if insist else 'a known format'}: found {found}; "
        f"{nearest.name} wants {nearest.signature}; "
        f"`fashion-infer kernel new --format {(nearest if nearest.template else plain).name}` writes one to start from"
    )
