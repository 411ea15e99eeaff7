"""Builds a submission in a sandbox that has limits and no GPU."""

import importlib.util
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ...errors import DeviceError
from ...judging.callers.here import runs_threads
from ...kernel_files import build as builds
from ...kernel_files import functions
from ...system import cache_limits, compilers, installation
from ...system.files import vanishing
from ...system.text import shown
from ..inside.seccomp import ALWAYS
from ..rubric import RubricLimits
from ..sandbox import Box, Broken, Layers, Limits, run
from .archives import Refused
from .submission import Submission

# Paths that a compiler needs, besides the libraries that every box shows.
_SYSTEM = ("/bin", "/usr/bin", "/usr/include", "/usr/libexec", "/usr/local/include", "/etc/alternatives")
# Limits of the box in which the compiler runs.
_DISK = 1 << 28  # bytes of temporary files; nvcc needs a few MiB for the largest of the course's files
_PRINTED = 1 << 22  # bytes of printed output
_THREADS = 256
_EXPLAINING = 60.0  # time limit in seconds for compiling a submission to explain it
_WIDEST = 300  # largest number of characters of a text in an explanation
_ROWS = 10  # largest number of items of a list in an explanation


class BuiltSubmission(NamedTuple):
    kind: str  # "plugin", "c" or "python": see `inside.kernels`
    path: Path
    seconds: float  # time of the build, in seconds
    host_memory: bool  # whether its tensors are in host memory
    phases: bool = False  # whether it has a prolog and an epilog; Op Time is then forward's, by the adapter's clock
    read: Tuple[str, ...] = ()  # additional files and folders that the worker may read
    packages: Tuple[str, ...] = ()  # folders of Python packages
    parallel: bool = False  # whether its source names something that starts threads
    thousands: bool = False  # whether its format allowed files that need multiples of 1,000 images
    zeroed: Optional[bool] = False  # whether its format's outputs are zero before a call; None if the library says


def build(submission: Submission, layers: Layers, limits: RubricLimits, backend: str) -> BuiltSubmission:
    """Build a submission for a backend in the sandbox, beside its folder. Refused, with the compiler's first error, if
    it does not compile; DeviceError if the machine is the cause."""
    recognised = submission.kernel
    start = time.monotonic()
    host_memory = backend == "cpu" or recognised.format.host_memory
    if recognised.format.language == "Python":
        if importlib.util.find_spec("torch") is None:
            raise DeviceError("submissions in Python need PyTorch: pip install torch")
        sites = tuple(path for path in sys.path if path.endswith("-packages") and Path(path).is_dir())
        # The worker may read the system's compiler and Python's headers, with which PyTorch's compilers work.
        read = (functions.__file__, str(submission.folder), *sites, *_SYSTEM, sysconfig.get_paths()["include"])
        return BuiltSubmission("python", recognised.path, 0.0, host_memory, read=read, packages=sites)
    if recognised.format.language == "machine code":
        plain = b"\0fops_kernel_plugin_main\0" not in recognised.path.read_bytes()
        return BuiltSubmission("c" if plain else "plugin", recognised.path, 0.0, host_memory, zeroed=None)
    arch = _needed(recognised)
    try:
        compile, into = _boxed(submission, layers, limits), submission.folder.parent
        built = builds.build(recognised, arch, compile, submission.folder, into)
    except (cache_limits.Unwritable, builds.UnusableCompiler):
        raise
    except DeviceError as error:
        why = str(error).replace(f"{submission.folder}/", "").replace(f"{into}/", "")
        raise Refused(f"it does not build: {why}") from None
    return BuiltSubmission(
        "plugin",
        built.library,
        time.monotonic() - start,
        host_memory,
        recognised.format.phases,
        _linked(recognised),
        parallel=runs_threads(recognised, submission.folder),
        thousands=recognised.format.thousands,
        zeroed=recognised.format.zeroed,
    )


def explain(submission: Submission, layers: Layers, limits: RubricLimits) -> Tuple[Dict[str, Any], ...]:
    """Return what the compiler says about a submission that builds, as findings for JSON. It is compiled again and not
    run. Errors are ignored, because an explanation does not affect the verdict."""
    from ...explain import compiler

    recognised = submission.kernel
    if recognised.format.adapter is None:
        return ()
    try:
        arch = _needed(recognised)
        boxed = _boxed(submission, layers, limits._replace(build_seconds=min(limits.build_seconds, _EXPLAINING)))
        with vanishing(lambda: tempfile.mkdtemp(prefix="fashion-infer-")) as place:
            found = compiler.findings(recognised, arch, boxed, Path(place), submission.folder)
        return tuple(
            {
                **{name: _bounded(getattr(one, name)) for name in ("code", "what", "line", "source", "remedy", "step")},
                "evidence": {name: _bounded(value) for name, value in one.evidence.items()},
            }
            for one in found
        )
    except Exception:  # the compiler's output depends on the submission, and may be anything
        return ()


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return shown(value[:_WIDEST])
    return [_bounded(each) for each in value[:_ROWS]] if isinstance(value, (list, tuple)) else value


def _boxed(submission: Submission, layers: Layers, limits: RubricLimits) -> builds.Compile:
    ours = [str(installation.resource_dir(name)) for name in ("submission", "include")]

    def boxed(command: List[str], place: Path) -> builds.Compiled:
        box = Box(
            Limits(limits.build_seconds, int(limits.build_memory_mib * 2**20), _DISK, _PRINTED, _THREADS, 1024),
            read=(*_SYSTEM, *_tools(command), str(submission.folder), *ours),
            write=(str(place),),
            processes=ALWAYS,
            memory_files=True,
        )
        try:
            ran = run(box, layers, command)
        except Broken as error:
            raise Refused(f"it does not build: the compiler was stopped, because {error}") from None
        return builds.Compiled(ran.code, ran.output)

    return boxed


def _needed(recognised) -> Optional[str]:
    """Return the GPU's architecture for a GPU format, None for a CPU format. Raise DeviceError if this machine cannot
    build the format, because the submission is then not the cause."""
    if compilers.find_cxx() is None:
        raise DeviceError(f"submissions need a C++ compiler ({compilers.CXX_PACKAGES})")
    if recognised.format.backend != "gpu":
        return None
    if compilers.find_nvcc() is None:
        raise DeviceError(f"GPU submissions need the CUDA compiler: {installation.extra('gpu')}")
    return builds.gpu_arch(0)


def _linked(recognised) -> Tuple[str, ...]:
    nvcc = compilers.find_nvcc() if recognised.format.backend == "gpu" else None
    folders = compilers.cuda_folders(nvcc) if nvcc else []
    return tuple(str(folder / name) for folder in folders for name in ("lib", "lib64") if (folder / name).is_dir())


def _tools(command: List[str]) -> Tuple[str, ...]:
    """Return the files and folders that a compiler's command needs, in addition to `_SYSTEM`. Those of the C++ compiler
    are included, because nvcc runs it."""
    nvcc, cxx = compilers.find_nvcc(), compilers.find_cxx()
    own = [str(folder) for folder in compilers.cuda_folders(nvcc)] if nvcc and command[0] == nvcc else []
    programs = dict.fromkeys([command[0], *([cxx] if cxx else [])])
    for program in programs:
        prefix = Path(program).resolve().parent.parent
        own += [program, *(str(prefix / name) for name in ("bin", "lib", "lib64", "libexec", "include"))]
    return tuple(own)
