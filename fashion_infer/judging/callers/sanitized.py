"""A kernel file for the CPU in a program of its own, built with sanitizers.

AddressSanitizer and UndefinedBehaviorSanitizer are in one program, ThreadSanitizer is in another one for files with
threads. A sanitizer's runtime cannot be loaded into a running Python process. The file is therefore compiled together
with a small program of ours (custom_ops/submission/sanitized_call.cpp), which reads the inputs of small calls from a
file, allocates each tensor separately, and writes the outputs to another file. -O1 hides less than -O3: a variable that
threads share by mistake stays in memory. What the file leaves unwritten holds NaN (malloc) or -1.7e38 (variables).
"""

import contextlib
import errno
import hashlib
import itertools
import os
import re
import signal
import struct
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ...errors import FashionInferError
from ...graph.layers import ConvolutionShape
from ...kernel_files import build, neighbours
from ...kernel_files.formats import KernelFile
from ...system import cache_limits, installation
from ...system.files import vanishing
from ..calls import Cause
from ..inputs import Inputs

_UNWRITTEN = 0xFFFFFFFF  # bits of the NaN in memory that the file allocates
_HUGE = 1e30  # magnitude that only a variable without a value gives an output
_SANITIZERS = "address,undefined,float-cast-overflow"
# Silent is what correct files do too: pointers one before an array, memcpy of no bytes, 1 << 31, delete for delete[].
_SILENT = "pointer-overflow,vptr,nonnull-attribute,returns-nonnull-attribute,shift-base"
_FLAGS = (
    "-O1",
    "-g",
    "-fno-omit-frame-pointer",
    "-U_FORTIFY_SOURCE",
    f"-fsanitize={_SANITIZERS}",
    f"-fno-sanitize={_SILENT}",
)
_OPTIONAL = ("-ftrivial-auto-var-init=pattern", "-fno-move-loop-stores")  # GCC 12 and later
_THREAD_FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer", "-U_FORTIFY_SOURCE", "-fsanitize=thread", "-ldl")
# What orders threads unknown to ThreadSanitizer, so that its reports may be false.
_UNKNOWN_ORDER = re.compile(
    r"\bvolatile\b|\basm\b|__asm__|\bomp\s+(?:task|ordered|flush|target|teams)|copyprivate|atomic_thread_fence|_nest_lock"
    r"|\btbb\b|execution::par"
)
_ASAN = (
    "abort_on_error=0:detect_stack_use_after_return=1:leak_check_at_exit=0:alloc_dealloc_mismatch=0:"
    "new_delete_type_mismatch=0:allocator_may_return_null=1:max_malloc_fill_size=2147483647:malloc_fill_byte=255:"
    "handle_abort=1"
)
_ENVIRONMENT = {
    "ASAN_OPTIONS": _ASAN,
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "report_thread_leaks=0:report_mutex_bugs=0:stack_trace_format='    #%n %p %F %L'",
    "LSAN_OPTIONS": "",
    "LC_ALL": "C",
    "OMP_STACKSIZE": "64M",
}
_MOST = 1 << 22  # bytes of the program's messages that are read
_TENSORS = {"tensor_of_input": "x", "tensor_of_weights": "k", "tensor_of_output": "y"}
_FRAME = re.compile(
    r"^ *#\d+ 0x[0-9a-f]+ in (?P<function>.+?) (?P<file>/[^:\n]+):(?P<line>\d+)(?::\d+)?$", re.MULTILINE
)
_RUNTIME = re.compile(r"^(?P<file>/[^:\n]+):(?P<line>\d+):\d+: runtime error: (?P<words>.*)$", re.MULTILINE)
_ASAN_ERROR = re.compile(r"^==\d+==ERROR: AddressSanitizer: (?P<kind>[\w-]+)(?P<text>.*)", re.DOTALL | re.MULTILINE)
_REGION = re.compile(
    r"^0x[0-9a-f]+ is located (?P<far>\d+) bytes (?P<side>before|after|inside of|to the left of|to the right of) "
    r"(?:(?P<size>\d+)-byte region \[0x(?P<begin>[0-9a-f]+),0x(?P<end>[0-9a-f]+)\)"
    r"|global variable '(?P<name>[^']+)'[^(\n]*\(0x(?P<at>[0-9a-f]+)\) of size (?P<bytes>\d+))",
    re.MULTILINE,
)
_RACE = re.compile(r"^WARNING: ThreadSanitizer: data race.*?(?=^={18}$|\Z)", re.DOTALL | re.MULTILINE)
_RACE_ACCESS = re.compile(
    r"^  (?:Previous )?(?:atomic )?(read|write) of size .*?(?=^$|\Z)", re.DOTALL | re.MULTILINE | re.IGNORECASE
)
_VARIABLE = re.compile(r"\[(\d+), (\d+)\) '([^']+)'.*<== Memory access at offset (\d+)")
_UNDEFINED = (  # patterns of UndefinedBehaviorSanitizer's messages, their codes, and the names of their numbers
    (r"signed integer overflow: (?P<words>.*) cannot be represented in type '(?P<type>.*)'", "int_overflow"),
    (r"negation of (?P<words>.*) cannot be represented in type '(?P<type>.*?)'", "int_overflow"),
    (r"shift exponent (?P<value>-?\d+) is ", "shift"),
    (r"division by zero", "divides_by_zero"),
    (r"(?P<value>\S+) is outside the range of representable values of type '(?P<type>.*)'", "float_to_int"),
    (r"null pointer", "null_pointer"),
    (r"misaligned address \S+ for type '(?P<type>.*)', which requires (?P<needs>\d+) byte", "misaligned_access"),
    (r"index (?P<index>-?\d+) out of bounds for type '(?P<type>.*)'", "array_too_small"),
    (r"insufficient space for an object of type '(?P<type>.*)'", "array_too_small"),
    (r"reached the end of a value-returning function", "no_return"),
    (r"bound evaluates to non-positive value (?P<value>-\d+)", "array_too_small"),
    (r"load of value (?P<value>\d+), which is not a valid value for type", "uninitialised_read"),
)
_HARMLESS = re.compile(r"bound evaluates to non-positive value 0\b")


class SanitizedCall(NamedTuple):
    inputs: Inputs
    threads: Optional[int] = None  # None for one per processor


class SanitizedRun(NamedTuple):
    outputs: List[Optional[np.ndarray]]  # of each completed call; None if the call failed with a message
    causes: List[Cause]  # errors at lines of the user's files, first one first


class SanitizedBuild:
    """The program for a kernel file. It is built in the background, or found in the cache.

    `races` says that it has ThreadSanitizer, and no other one.
    """

    def __init__(
        self,
        file: KernelFile,
        library: Optional[Path] = None,
        compile: build.Compile = build.compile_here,
        within: Optional[Path] = None,
        races: bool = False,
    ):
        self.note = ""  # why there is no program
        self.races = races
        self._file, self._library, self._compile, self._within = file, library, compile, within
        self._program: Optional[Path] = None
        self._full: Optional[Exception] = None  # an error in writing
        self._thread = threading.Thread(target=self._build, daemon=True)
        self._thread.start()

    @property
    def ready(self) -> bool:
        return not self._thread.is_alive()

    def program(self) -> Optional[Path]:
        """Wait for the build, and return the program; None if it cannot be built. A full disk is an error."""
        self._thread.join()
        if self._full is not None:
            raise self._full
        return self._program

    def run(self, calls: Sequence[SanitizedCall], seconds: float = 20.0) -> Optional[SanitizedRun]:
        """Run calls one after another in one process, up to the first error; None if the machine does not allow it.

        A program that does not end within the time limit has no error.
        """
        program = self.program()
        if program is None:
            return None
        with tempfile.TemporaryDirectory(prefix="fashion-infer-") as folder:
            place = Path(folder)
            inputs, outputs = place / "inputs", place / "outputs"
            outputs.touch()
            with inputs.open("wb") as to:
                for call in calls:
                    to.write(struct.pack("<7q", *call.inputs.shape, call.threads or 0))
                    to.write(np.ascontiguousarray(call.inputs.x, np.float32).data)
                    to.write(np.ascontiguousarray(call.inputs.k, np.float32).data)
            try:
                command = [str(program), str(inputs), str(outputs)]
                said = _run(command, place, seconds)
                if self.races and "fops call 1" not in said:  # it cannot start where addresses are very random
                    said = _run(["setarch", "-R", *command], place, seconds)
            except OSError as error:
                self.note = f"the program with sanitizers cannot be started: {error.strerror}"
                return None
            path = self._file.path.resolve()
            own = {str(one): one.name for one in (path, *neighbours.of(path, self._within).all)}
            causes = causes_of(said, own, calls)
            if not causes and "fops call 1" not in said:
                self.note = f"the program with sanitizers does not start: {said.strip()[-200:]}"
                return None
            made = np.fromfile(outputs, np.float32)
        return SanitizedRun(_outputs(made, calls, said), causes)

    def _build(self) -> None:
        try:
            self._program = self._built()
        except (FashionInferError, OSError) as error:
            self.note = str(error)
            full = isinstance(error, OSError) and error.errno == errno.ENOSPC
            self._full = error if full or isinstance(error, cache_limits.Unwritable) else None
        except Exception as error:  # it runs in a thread: without the program there is only less to say
            self.note = f"{type(error).__name__}: {error}"

    def _built(self) -> Optional[Path]:
        # The plug-in's name identifies the file, its neighbours, our files, and the compiler.
        library = self._library or build.build(self._file, None, self._compile, self._within).library
        flags, extra = (_THREAD_FLAGS, (_OPTIONAL[1:], ())) if self.races else (_FLAGS, (_OPTIONAL, ()))
        key = hashlib.sha256(" ".join((library.stem, *flags, *extra[0])).encode()).hexdigest()[:32]
        driver = installation.resource_dir("submission") / "sanitized_call.cpp"
        folder = cache_limits.made_folder(cache_limits.KERNELS)
        target = folder / f"{key}.so"  # as the cache's entries are named
        with cache_limits.writing(folder), cache_limits.lock(target):
            if target.is_file():
                cache_limits.use(target)
                return target
            with vanishing(lambda: tempfile.mkdtemp(dir=folder, prefix="build-")) as temporary:
                place = Path(temporary) / "compiler"
                place.mkdir()
                plugin = build.command_in(place, self._file, None, self._within)
                words = [word for word in plugin if word not in ("-shared", "-O3") and not word.startswith("-Wl,")]
                words += ["-x", "c++", "-std=c++17", str(driver), "-x", "none", *flags, "-lstdc++", "-lm"]
                for optional in extra:
                    done = self._compile([*words, *optional, "-o", str(place / "program")], place)
                    if not done.code:
                        break
                else:
                    self.note = build.first_error(done.output, self._file.path)
                    return None
                made = Path(temporary) / "program"
                made.write_bytes((place / "program").read_bytes())
                made.chmod(0o700)
                cache_limits.make_room(made.stat().st_size, target)
                target.with_suffix(".log").write_text(done.output)
                os.replace(made, target)
        return target


def has_unwritten(output: np.ndarray) -> bool:
    """Whether outputs show what memory and variables of the file hold before it writes them."""
    return bool(((output.view("u4") == _UNWRITTEN) | (np.abs(output) > _HUGE)).any())


def begin(file: KernelFile, library: Optional[Path] = None, races: bool = False) -> Optional[SanitizedBuild]:
    """Begin to build the program for a kernel file; None if we do not compile the file, or not for the CPU.

    `library` is the built plug-in, if there is one already. A program that looks for races is also None if the file
    orders its threads by means that ThreadSanitizer does not know.
    """
    if file.format.adapter is None or file.format.backend != "cpu":
        return None
    if races and _UNKNOWN_ORDER.search(neighbours.whole_text(file.path)):
        return None
    return SanitizedBuild(file, library, races=races)


def _run(command: Sequence[str], place: Path, seconds: float) -> str:
    with (place / "stderr").open("w+b") as errors:
        run = subprocess.Popen(
            command,
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, **_ENVIRONMENT},
            start_new_session=True,
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        errors.seek(0)
        return errors.read(_MOST).decode(errors="replace")


def _outputs(made: np.ndarray, calls: Sequence[SanitizedCall], said: str) -> List[Optional[np.ndarray]]:
    """Divide the floats that the program wrote among the calls."""
    found: List[Optional[np.ndarray]] = []
    statuses, at = re.findall(r"^fops status (-?\d+)", said, re.MULTILINE), 0
    for call, status in zip(calls, statuses):
        shape = call.inputs.shape
        if at + shape.outputs > made.size:
            break
        found.append(made[at : at + shape.outputs].reshape(shape.output) if status == "0" else None)
        at += shape.outputs
    return found


# ---- the sanitizers' words


def causes_of(said: str, own: Dict[str, str], calls: Sequence[SanitizedCall]) -> List[Cause]:
    """Return the errors at lines of the user's files ({absolute path: name}), one for each line, first one first.

    What UndefinedBehaviorSanitizer says of a line is the reason of what AddressSanitizer says of it.
    """
    found: Dict[Tuple[bool, int], Cause] = {}
    reports = (_undefined(said, own, calls), _memory(said, own, calls), _races(said, own), _leaks(said, own))
    for cause in itertools.chain(*reports):
        found.setdefault((cause.code == "leak", cause.details["line"]), cause)
    return list(found.values())


def _line(stack: str, own: Dict[str, str]) -> Optional[Dict[str, Any]]:
    """Return file and line of the innermost frame in the user's files, and the line in the kernel file ("from")."""
    frames = [
        (own[path], int(frame["line"]))
        for frame in _FRAME.finditer(stack)
        for path in [os.path.realpath(frame["file"])]
        if path in own
    ]
    if not frames:
        return None
    kernel = next(iter(own.values()))
    return {
        "file": frames[0][0],
        "line": frames[0][1],
        "from": next((line for name, line in frames if name == kernel), None),
    }


def _call_at(said: str, calls: Sequence[SanitizedCall]) -> Dict[str, Any]:
    """Return number, images and threads of the last call that `said` names."""
    numbers = re.findall(r"^fops call (\d+)$", said, re.MULTILINE)
    if not numbers or int(numbers[-1]) > len(calls):
        return {}
    call = calls[int(numbers[-1]) - 1]
    threads_ = call.threads or len(os.sched_getaffinity(0))
    return {"call": int(numbers[-1]), "images": call.inputs.shape.B, "threads": threads_}


def _undefined(said: str, own: Dict[str, str], calls: Sequence[SanitizedCall]) -> Iterator[Cause]:
    for match in _RUNTIME.finditer(said):
        # For an error in the header of an intrinsic, the line is that of the kernel's call.
        stack = re.split(r"\n\n|runtime error|ERROR: ", said[match.end() :], maxsplit=1)[0]
        name = own.get(os.path.realpath(match["file"]))
        place = {"file": name, "line": int(match["line"]), "from": None} if name else _line(stack, own)
        if place is None or _HARMLESS.search(match["words"]):
            continue
        place = {**place, **_call_at(said[: match.start()], calls)}
        access = re.match(r"load|store|member|reference", match["words"])
        if access:
            place["verb"] = "writes" if access[0] == "store" else "reads"
        for pattern, code in _UNDEFINED:
            details = re.search(pattern, match["words"])
            if details:
                numbers = {
                    key: int(text) if re.fullmatch(r"-?\d+", text) else text
                    for key, text in details.groupdict().items()
                }
                yield Cause(code, {**place, **numbers})
                break
        else:
            yield Cause("undefined", {**place, "words": match["words"]})


def _memory(said: str, own: Dict[str, str], calls: Sequence[SanitizedCall]) -> Iterator[Cause]:
    report = _ASAN_ERROR.search(said)
    if not report:
        return
    kind, text = report["kind"], report["text"]
    first, _, rest = text.partition("\n\n")
    place = _line(first, own)
    if place is None:
        return
    access = re.search(r"^(READ|WRITE) of size (\d+) at 0x([0-9a-f]+)", text, re.MULTILINE)
    writes = bool(access and access[1] == "WRITE") or "caused by a WRITE" in first
    details: Dict[str, Any] = {**place, "verb": "writes" if writes else "reads", **_call_at(said, calls)}
    if kind == "SEGV":
        yield _of_segv(first, details)
    elif kind == "FPE":
        yield Cause("divides_by_zero", details)
    elif kind == "stack-overflow":
        yield Cause("stack", details)
    elif kind.startswith("stack-use-after"):
        yield Cause("use_after_scope", {**details, "name": _variable(text).get("name", "")})
    elif kind == "heap-use-after-free":
        tensor, freed = _tensor(rest), _line(rest.partition("previously allocated")[0], own)
        # Threads of OpenMP work during a call; others may outlive it.
        late = re.search(r"thread T[1-9]", first.partition("\n    #")[0]) and "libgomp" not in first
        if tensor and late:
            yield Cause("returns_early", details)
        elif tensor:
            yield Cause("kept_pointer", {**details, "tensor": tensor})
        else:
            yield Cause("use_after_free", {**details, "freed": freed and freed["line"]})
    elif kind == "attempting":
        yield Cause("double_free" if "double-free" in first else "bad_free", details)
    elif kind.endswith("-param-overlap"):
        yield Cause("memcpy_overlap", {**details, "function": kind.partition("-")[0]})
    elif kind == "negative-size-param":
        yield Cause("negative_size", details)
    elif kind in ("ABRT", "ILL", "BUS"):
        yield Cause("crash", {**details, "signal": f"SIG{kind}"})
    elif access:
        yield _of_access(text, int(access[2]), int(access[3], 16), details, calls)
    else:
        yield Cause("undefined", {**details, "words": f"{kind}{text.partition(chr(10))[0]}"})


def _races(said: str, own: Dict[str, str]) -> Iterator[Cause]:
    """Return races, but not of a line that only stores outputs: its threads may store the same number."""
    for report in _RACE.finditer(said):
        accesses = list(_RACE_ACCESS.finditer(report[0]))
        first, other = (*(_line(access[0], own) for access in accesses), None, None)[:2]
        if first is None:
            continue
        stores = first == other and not any(access[1].lower() == "read" for access in accesses)
        if not (stores and _tensor(report[0]) == "y"):
            yield Cause("race", {**first, "other": (other or first)["line"]})


def _of_segv(first: str, details: Dict[str, Any]) -> Cause:
    at = re.search(r"on unknown address 0x([0-9a-f]+)", first)
    if at and int(at[1], 16) < 4096:
        return Cause("null_pointer", details)
    # x86 reports no address for a vector instruction at an address that is not aligned.
    if not at and re.search(r"on unknown address \(", first):
        return Cause("misaligned_access", details)
    return Cause("wild_pointer", details)


def _of_access(text: str, size: int, at: int, details: Dict[str, Any], calls: Sequence[SanitizedCall]) -> Cause:
    """Return the cause of an access outside of a tensor or an array.

    `bytes` are accessed, and `outside` of them lie past the end or before the beginning ("side"). `elements` is the
    length of the tensor or array, and `element` the first accessed one, both in floats; `index` is the tensor's.
    """
    code = f"out_of_bounds_{details['verb'][:-1]}"
    details = {**details, "bytes": size, "tensor": ""}
    variable = _variable(text)
    if variable:
        begin, end, offset = variable.pop("begin"), variable.pop("end"), variable.pop("offset")
        details.update(variable, **_outside(offset, size, begin, end))
        return Cause("array_too_small" if details["side"] == "past" else code, details)
    regions = list(_REGION.finditer(text))
    if not regions:
        return Cause(code, details)
    region = min(regions, key=lambda each: int(each["far"]))
    if region["name"]:
        begin = int(region["at"], 16)
        end = begin + int(region["bytes"])
        details["name"] = region["name"].rpartition("::")[2]
    else:
        begin, end = int(region["begin"], 16), int(region["end"], 16)
        details["tensor"] = _tensor(text[region.end() :].partition("\n\n")[0])
    details.update(_outside(at, size, begin, end))
    if details["tensor"] and calls and "call" in details:
        shape = calls[details["call"] - 1].inputs.shape
        details.update(_index(details["element"], details["tensor"], shape))
    elif details["side"] == "past":
        code = "array_too_small"
    return Cause(code, details)


def _outside(at: int, size: int, begin: int, end: int) -> Dict[str, Any]:
    past = at + size > end
    outside = min(size, at + size - end) if past else min(size, max(0, begin - at))
    return {
        "side": "past" if past else "before",
        "outside": outside,
        "element": (at - begin) // 4,
        "elements": (end - begin) // 4,
    }


def _index(element: int, tensor: str, shape: ConvolutionShape) -> Dict[str, Any]:
    """Return the index of an element of a tensor; its first number may lie outside of the tensor."""
    sizes = {"x": shape.data, "k": shape.weights, "y": shape.output}[tensor]
    index = []
    for size in sizes[:0:-1]:
        element, rest = divmod(element, size)
        index.append(rest)
    return {"index": (element, *index[::-1]), "sizes": sizes}


def _variable(text: str) -> Dict[str, Any]:
    """Return name, frame offsets and accessed offset of a local variable."""
    match = _VARIABLE.search(text)
    if not match:
        return {}
    return {"name": match[3], "begin": int(match[1]), "end": int(match[2]), "offset": int(match[4])}


def _tensor(stack: str) -> str:
    """Return "x", "k" or "y" if a stack allocates that tensor."""
    return next((name for function, name in _TENSORS.items() if function in stack), "")


def _leaks(said: str, own: Dict[str, str]) -> Iterator[Cause]:
    """Return the memory that nearly every call leaves behind: the last one's address may still be in a register."""
    ended = len(re.findall(r"^fops status 0", said, re.MULTILINE))
    if "fops end" not in said or ended < 3:
        return
    for block in said.split("\n\n"):
        leak = re.search(r"Direct leak of (\d+) byte\(s\) in (\d+) object\(s\) allocated from:", block)
        place = leak and _line(block, own)
        if leak and place and int(leak[2]) >= ended - 1 and "libgomp" not in block:
            each = int(leak[1]) // int(leak[2]) * max(1, round(int(leak[2]) / ended))
            yield Cause("leak", {**place, "bytes": each})
