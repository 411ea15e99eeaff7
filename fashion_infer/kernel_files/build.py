"""Build of a plug-in of the operator library from a kernel file, with the compilers of the library.

The key in the cache is made from all inputs: the file, its neighbours, the adapter, our headers, the command and the
compiler's version. A second process that needs the same plug-in waits for the first process.
"""

import codecs
import functools
import hashlib
import os
import platform
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from ..errors import DeviceError
from ..system import cache_limits, compilers, inputs, installation
from ..system.files import vanishing
from . import formats, neighbours, source
from .formats import KernelFile

_CUBLAS = {"cublas_v2.h": "cublas", "cublas.h": "cublas", "cublasXt.h": "cublas", "cublasLt.h": "cublasLt"}
_HEADERS = ("minidnn", "mxnet-years", "leetgpu")
# GNU unique symbols are shared in a process: two plug-ins would share a template's static variables.
_HOST_FLAGS = ["-fPIC", "-fno-gnu-unique"]
_LINK_FLAGS = ["-Bsymbolic", "-z,defs", "--exclude-libs,ALL"]
# gcc, clang: FILE:LINE:COLUMN: error: TEXT; nvcc: FILE(LINE): error: TEXT, error #20: TEXT. FILE may be "conv (1).cpp".
_ERROR = re.compile(
    r"^(?P<file>\S.*?)(?::(?P<line>\d+)(?::\d+)?|\((?P<cuda>\d+)\))\s*:\s*(?:fatal )?(?:catastrophic )?"
    r"error\b[^:\n]*:\s*(?P<text>.*)$",
    re.MULTILINE,
)
_ROOM = 8 << 20  # bytes; the compiler's intermediate files for each of the course's files are smaller
_LARGEST = 32 << 20  # size limit of a library in bytes; the largest of the course's files makes 2 MB
_TEXTURE = "texture references left CUDA with version 12: read through a pointer, or a texture object"
# The header whose class a file may have extended, and nvcc's errors if the file gets ours in its place.
_INTERFACE = "gpu-new-forward.h"
_MEMBER = re.compile(r'\bGPUInterface\b|^identifier "(?P<name>\w+)" is undefined')
_LONGEST_PATH = 100  # limit for a header's path in the course's tree, in bytes
_UNSAFE = re.compile(r"[^\w.+-]", re.ASCII)  # characters of file names that a compiler's own commands may misread
_UNDEFINED = re.compile(r"undefined reference to [`'](?P<name>.+?)'")


class Built(NamedTuple):
    library: Path
    warnings: str  # the compiler's output; "" if none
    compiled: bool  # False if it was in the cache


class UnusableCompiler(DeviceError):
    """The machine's compiler fails on a file known to be correct, so the kernel file is not at fault."""


class Compiled(NamedTuple):
    code: int  # its exit code
    output: str


# Function that runs a compiler's command in a separate folder, the only folder that the command writes to.
Compile = Callable[[List[str], Path], Compiled]


def compile_here(command: List[str], place: Path) -> Compiled:
    """Run the compiler as a child process; files that it leaves behind on Ctrl-C are in `place`."""
    run = subprocess.run(
        command,
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C", "TMPDIR": str(place)},
    )
    return Compiled(run.returncode, run.stdout)


def build(
    kernel_file: KernelFile,
    arch: Optional[str] = None,
    compile: Compile = compile_here,
    within: Optional[Path] = None,
    into: Optional[Path] = None,
) -> Built:
    """Build the plug-in of a kernel file, or find it in the cache. `arch`, such as "90a", is required for GPU formats.

    An untrusted file needs a `compile` that uses a sandbox, a folder `within` which its neighbours must be, and a
    folder `into` which the plug-in is written instead of into the cache. The
    message of a DeviceError has the compiler's first error. UnusableCompiler if the compiler fails on a known-good file
    too; cache_limits.Unwritable if the cache cannot be written.
    """
    path = kernel_file.path.resolve()
    beside = neighbours.of(path, within)
    command = _command(kernel_file, path, beside, arch)
    folder = into or cache_limits.made_folder(cache_limits.KERNELS)
    target = folder / f"{_key(kernel_file, beside, command)}.so"
    with cache_limits.writing(folder), cache_limits.lock(target):
        said = target.with_suffix(".log")
        if target.is_file() and said.is_file():
            cache_limits.use(target)
            return Built(target, said.read_text(), False)
        with vanishing(lambda: tempfile.mkdtemp(dir=folder, prefix="build-")) as temporary:
            # `place` is the compiler's own folder. An untrusted file may have made the compiler write anything there,
            # even links and FIFOs. Afterwards, only the library is opened there, and nothing is written.
            outside = Path(temporary)
            place = outside / "compiler"
            place.mkdir()
            done = compile([*_placed(command, path, beside, place), "-o", str(place / "plugin.so")], place)
            if done.code:
                (outside / "room").write_bytes(bytes(_ROOM))  # fails if the disk is full, which is not the file's fault
                _blame_compiler(kernel_file, arch, compile, outside)
                raise DeviceError(first_error(done.output, kernel_file.path, _INTERFACE in map(_last, beside.missing)))
            (outside / "log").write_text(done.output)
            data = inputs.read_own(place / "plugin.so", _LARGEST, DeviceError, "what the compiler made, ")
            (outside / "plugin.so").write_bytes(data)
            if into is None:
                cache_limits.make_room(len(data), target)
            os.replace(outside / "log", said)
            os.replace(outside / "plugin.so", target)
    return Built(target, done.output, True)


def command_in(
    place: Path, kernel_file: KernelFile, arch: Optional[str] = None, within: Optional[Path] = None
) -> List[str]:
    """Return the compiler's command without the output option; the other files that it needs are written to `place`."""
    path = kernel_file.path.resolve()
    beside = neighbours.of(path, within)
    return _placed(_command(kernel_file, path, beside, arch), path, beside, place)


def _placed(command: List[str], path: Path, beside: neighbours.Neighbours, place: Path) -> List[str]:
    copies = _copies(path, beside, place)
    (place / "fops_submission.inc").write_text(f'#include "{copies.get(path, path)}"\n')
    folders = {f"-I{file.parent}": f"-I{copy.parent}" for file, copy in copies.items()}
    files = {str(file): str(copy) for file, copy in copies.items()}
    words: List[str] = []
    for word in command:
        words += [folders[word], word] if word in folders else [files.get(word, word)]
    return [*words, f"-I{place}", *_course_tree(beside.missing, place)]


def _copies(path: Path, beside: neighbours.Neighbours, place: Path) -> Dict[Path, Path]:
    """Copy a kernel file and its neighbours into `place`, prepared, if the compiler cannot read them as they are."""
    compiled = [path, *beside.helpers]
    contents = {file: _bytes(file) for file in [path, *beside.all]}
    ready = {file: source.prepared(data) for file, data in contents.items()}
    if ready == contents and not any(_UNSAFE.search(file.name) or '"' in str(file) for file in compiled):
        return {}
    root = os.path.commonpath([file.parent for file in contents])
    copies = {}
    for file, data in ready.items():
        name = _UNSAFE.sub("_", file.name) if file in compiled else file.name
        copies[file] = place / "source" / file.parent.relative_to(root) / name
        copies[file].parent.mkdir(parents=True, exist_ok=True)
        named = _named(file).replace("\\", "\\\\")
        copies[file].write_bytes(os.fsencode(f'#line 1 "{named}"\n') + data[3 * data.startswith(codecs.BOM_UTF8) :])
    return copies


def _named(file: Path) -> str:
    """Return a file's path as a copy gives it to the compiler: ptxas refuses quotes."""
    return str(file).replace('"', "'")


def _course_tree(missing: List[str], place: Path) -> List[str]:
    """Return compiler options for headers that a file names by paths in the course's tree."""
    ours = {header.name: header for header in (installation.resource_dir("submission") / "headers/minidnn").glob("*.h")}
    below = place / "tree"
    flags = []
    for name in missing:
        *above, last = name.split("/")
        if last not in ours or ours.keys() & above or above[:1] in ([], [""]) or len(name.encode()) > _LONGEST_PATH:
            continue
        folder = below.joinpath(*(["below"] * name.count("..")))
        header = Path(os.path.normpath(folder / name))
        if below not in header.parents:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(f'#include "{ours[last]}"\n')
        flags.append(f"-I{folder}")
    return list(dict.fromkeys(flags))


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _blame_compiler(kernel_file: KernelFile, arch: Optional[str], compile: Compile, outside: Path) -> None:
    """Build the template of a kernel file's format; raise UnusableCompiler if the template fails to build too."""
    folder = outside / "known-good"
    folder.mkdir()
    template = folder / str(kernel_file.format.template)
    template.write_text(formats.template(kernel_file.format.name))
    known = formats.recognise(template, kernel_file.format.name)
    done = compile([*command_in(folder, known, arch, folder), "-o", str(folder / "plugin.so")], folder)
    if done.code:
        compiler = " ".join(compilers.cxx_command() or [])
        why = first_error(done.output, template).partition(": ")[2]
        raise UnusableCompiler(
            f"the compiler ({compiler}) does not build a file that is known to be correct, "
            f"so {kernel_file.name} is not at fault: {why}"
        )


def first_error(output: str, path: Path, our_interface: bool = False) -> str:
    """Return the compiler's first error in one line, with the file's name as the user gave it."""
    match = _ERROR.search(output)
    if match:
        file = match.group("file").strip()
        shown = str(path) if Path(file).name in (path.name, Path(_named(path)).name) else file
        text = match.group("text").strip()
        hint = f"; {_TEXTURE}" if re.search(r"\btexture\b", text) else ""
        member = _MEMBER.search(text) if our_interface else None
        # A misspelt name usually occurs once, a member in several functions.
        if member and len(re.findall(rf"\b{member.group('name') or ''}\b", neighbours.text_of(path))) > 1:
            hint = f"; if your own {_INTERFACE} declares it, put that header beside the file"
        return f"{shown}:{match.group('line') or match.group('cuda')}: {text}{hint}"
    match = _UNDEFINED.search(output)
    if match:
        return f"{path}: {match.group('name')} is used but defined nowhere, neither in this file nor in those beside it"
    lines = [line for line in output.splitlines() if line.strip()]
    return f"{path}: the compiler failed{': ' + lines[-1].strip() if lines else ' and said nothing'}"


def gpu_arch(device: int) -> str:
    """Return the architecture of a GPU, such as "80", or "90a" with architecture-specific features."""
    from ..library import devices

    major, minor = devices.cuda_device(device).capability
    return f"{major}{minor}{'a' if major >= 9 else ''}"


def _command(kernel_file: KernelFile, path: Path, beside: neighbours.Neighbours, arch: Optional[str]) -> List[str]:
    ours = installation.resource_dir("submission")
    adapter = ours / "adapters" / str(kernel_file.format.adapter)
    # The file's folder comes first: a header next to the file takes precedence over ours.
    places = [
        path.parent,
        *beside.folders,
        ours / "adapters",
        *(ours / "headers" / name for name in _HEADERS),
        installation.resource_dir("include"),
    ]
    flags = [f'-DFOPS_FORMAT="{kernel_file.format.name}"', *(f"-D{name}" for name in kernel_file.defines)]
    flags += [f"-I{place}" for place in places]
    flags += ["-include", str(ours / "headers" / "first_token.h")]
    text = "".join(source.text(_bytes(file)) for file in [path, *beside.all])
    openmp = ["-fopenmp"] if re.search(r"omp\.h|#\s*pragma\s+omp\b", text) else []
    cxx, words = compilers.find_cxx(), compilers.cxx_command()
    if cxx is None or words is None:
        raise DeviceError(f"no C++ compiler for {kernel_file.path} ({compilers.CXX_PACKAGES})")
    supplied = [ours / "headers" / "minidnn" / "matmul.cu"] if "matmul.h" in map(_last, beside.missing) else []
    sources = [*([path] if kernel_file.format.linked else []), *beside.helpers, *supplied, adapter]
    if kernel_file.format.backend == "cpu":
        c = any(file.suffix == ".c" for file in sources)
        standard = [] if c else ["-std=c++17"]
        host = [flag for flag in _HOST_FLAGS if not (c and flag == "-fno-gnu-unique")]
        typed = [word for file in sources for word in ("-x", "c" if file.suffix == ".c" else "c++", str(file))]
        link = [f"-Wl,{flag}" for flag in _LINK_FLAGS]
        march = ["-march=native"] if platform.machine() in ("x86_64", "AMD64") else []
        return [*words, "-shared", "-O3", *march, *standard, "-Wall", *host, *openmp, *flags, *typed, "-x", "none",
                *link, "-lpthread"]  # fmt: skip

    nvcc = compilers.find_nvcc()
    if nvcc is None:
        raise DeviceError(f"{kernel_file.path} needs the CUDA compiler: {installation.extra('gpu')}")
    folders = compilers.cuda_folders(nvcc)
    host = [f"-Xcompiler={flag}" for flag in [*_HOST_FLAGS, *openmp]]
    link = [f"-Xlinker={flag}" for flag in _LINK_FLAGS]  # nvcc also treats a comma as a space
    places = [folder / name for folder in folders[:2] for name in ("lib64", "lib")]
    libraries = [f"-L{place}" for place in places if place.is_dir()]
    names = ours / "headers" / "cuda"
    flags += [f"-I{names}", "-include", str(names / "fops_names.h")]
    as_cuda = ["-x", "cu"] if path.suffix != ".cu" and kernel_file.format.linked else []
    return [nvcc, "-shared", "-O3", "-std=c++17", "-lineinfo", f"-arch=sm_{arch}", "-ccbin", cxx, *host,
            *flags, *as_cuda, *map(str, sources), *link, *libraries,
            *_cublas(kernel_file.path, text, folders)]  # fmt: skip


def _cublas(path: Path, text: str, folders: List[Path]) -> List[str]:
    """Return compiler options for cuBLAS if the file uses it; cuBLAS is taken from the toolkit or from its wheel."""
    included = neighbours.included_by(text)
    used = sorted({library for header, library in _CUBLAS.items() if header in included})
    flags: List[str] = []
    for library in used:
        found = [
            file
            for folder in folders
            for name in ("lib64", "lib")
            for file in sorted((folder / name).glob(f"lib{library}.so*"))
        ]
        headers = [folder / "include" for folder in folders if (folder / "include" / "cublas_v2.h").is_file()]
        if not found or not headers:
            raise DeviceError(f"{path} uses {library}, which is not installed: pip install 'nvidia-cublas==13.*'")
        # Linked by name: a wheel has no libcublas.so, and nvcc accepts no file that ends in .so.13. Its headers go
        # last, because CUDA headers of another version may be next to them.
        place = found[0].parent
        flags += [
            "-Xcompiler=-idirafter",
            f"-Xcompiler={headers[0]}",
            f"-L{place}",
            f"-l:{found[0].name}",
            f"-Xlinker=-rpath={place}",
        ]
    return flags


def _key(kernel_file: KernelFile, beside: neighbours.Neighbours, command: List[str]) -> str:
    digest = hashlib.sha256()
    ours = [*installation.resource_dir("submission").rglob("*"), *installation.resource_dir("include").glob("*.h")]
    for file in [kernel_file.path, *beside.all, *sorted(ours)]:
        if file.is_file() and file.suffix != ".md":
            digest.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    digest.update("\0".join([*command, *map(_version, _compilers(command)), _processor(command)]).encode())
    return digest.hexdigest()[:32]


def _compilers(command: List[str]) -> Tuple[str, ...]:
    if "-ccbin" in command:
        return (command[0], command[command.index("-ccbin") + 1])
    return (" ".join(command[: command.index("-shared")]),)


@functools.lru_cache(maxsize=None)
def _version(compiler: str) -> str:
    run = subprocess.run([*compiler.split(" "), "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return run.stdout


def _processor(command: List[str]) -> str:
    """Return the processor that -march=native selects. It is part of the key because machines may share a cache."""
    if "-march=native" not in command:
        return ""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith("flags")), platform.machine())


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DeviceError(f"cannot read {path}: {error.strerror}") from None
