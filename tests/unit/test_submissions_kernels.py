"""Kernel files of the CPU formats, built and run through the library. GPU files are only compiled."""

import os
import shutil
import subprocess
import sys
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace

import kernel_loading
import numpy as np
import profiles
import pytest
import reference
import skips
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_bugs import HEAD, SAMPLES, TEMPLATES, path_of

from fashion_infer.errors import DeviceError, UsageError
from fashion_infer.kernel_files import build, formats, plugin
from fashion_infer.library import bindings, devices, kernels, op_times
from fashion_infer.system import compilers

ROOT = Path(__file__).resolve().parent.parent.parent
RIGHT = [
    *(TEMPLATES / name for name in ("conv.cpp", "cpu-new-forward.cc", "new-forward.h")),
    *map(path_of, ("plain.c", "cpu-stride.cc", "helper/conv.cpp")),
    *(path_of(f"mxnet-cpu-{name}.h") for name in ("macros", "alloc", "assignments")),
]
ON_GPU = [
    *(TEMPLATES / entry.template for entry in formats.FORMATS if entry.backend == "gpu"),
    *sorted(path for path in (SAMPLES / "right").glob("gpu-*") if "cublas" not in path.name),
    SAMPLES / "right/own-header/new-forward.cu",
    SAMPLES / "right/matmul/new-forward.cu",
]
SMALL = [(2, 13, 40, 4)]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """A separate cache folder for the tests of this module."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.name)
@settings(max_examples=15, deadline=None)
@given(shape=st.tuples(*(st.integers(1, high) for high in (5, 4, 12, 9, 7))), pixels=st.booleans())
def test_correct_files_at_random_shapes(path, shape, pixels):
    images, channels, size, filters, side = shape
    side = min(side, size)
    rng = np.random.default_rng(sum(shape))
    x = reference.pixels(rng, (images, channels, size, size))
    weight = reference.weights(rng, filters, channels, side)
    kernel = kernel_loading.load(path)
    y = kernels.convolve(x if pixels else x.astype(np.float32), weight, kernel.name)
    assert reference.relative_error(y, reference.convolve(x, weight)) < 1e-5


def test_a_files_output_goes_to_stderr_with_its_name(capfd):
    kernel = kernel_loading.load(path_of("prints"))
    capfd.readouterr()
    print("ours, before")
    kernels.convolve(np.ones((2, 1, 4, 4)), np.ones((3, 1, 2, 2)), kernel.name)
    print("ours, after")
    out, err = capfd.readouterr()
    assert out == "ours, before\nours, after\n"
    assert err == "[prints.cpp] B = 2\n[prints.cpp] M = 3\n[prints.cpp] no newline\n"


def test_output_before_exit_is_printed(run_python):
    code = (
        "import sys, numpy as np\n"
        "from fashion_infer.kernel_files import formats, loading\nfrom fashion_infer.library import kernels\n"
        "name = loading.load(formats.recognise(sys.argv[1])).name\n"
        "kernels.convolve(np.ones((2, 1, 4, 4)), np.ones((3, 1, 2, 2)), name)\nprint('done')"
    )
    end = run_python(code, path_of("exits"))
    assert (end.returncode, end.stdout) == (255, "")
    assert end.stderr == "[exits.cpp] not today\n"


@pytest.mark.parametrize("name, line", [("compile-error", ":9"), ("undefined", "")])
def test_the_first_error_of_compiler_or_linker_is_one_line(name, line):
    path = path_of(name)
    with pytest.raises(DeviceError) as failed:
        kernel_loading.load(path)
    assert str(failed.value).startswith(f"{path}{line}: ")
    assert failed.value.exit_code == 4 and "\n" not in str(failed.value)


@pytest.mark.parametrize("name", profiles.drawn(["conv (1).cpp", '-a "b" #2, größe\\$c.cpp'], 1))
def test_names_of_any_characters(tmp_path, name):
    folder = tmp_path / name
    shutil.copytree(SAMPLES / "right" / "helper", folder)
    path = (folder / "conv.cpp").rename(folder / name)
    assert kernel_loading.check(path, shapes=SMALL).right
    path.write_text(f"{HEAD} {{\n  int n = undefined_name;\n}}\n")
    with pytest.raises(DeviceError) as failed:
        kernel_loading.load(path)
    assert str(failed.value).startswith(f"{path}:2: ") and "undefined_name" in str(failed.value)


ENCODINGS = [("utf-16", "\n"), ("utf-16-be", "\r\n"), ("utf-8-sig", "\r")]


@pytest.mark.parametrize("encoding, line_end", profiles.drawn(ENCODINGS, 1))
def test_texts_of_other_encodings(own, encoding, line_end):
    for file in (own.path, own.header, own.source):
        file.write_bytes(file.read_text().replace("\n", line_end).encode(encoding))
    assert kernel_loading.check(own.path, shapes=SMALL).right
    text = own.header.read_bytes().decode(encoding) + f"{line_end}int n = undefined_name;{line_end}"
    own.header.write_bytes(text.encode(encoding))
    with pytest.raises(DeviceError) as failed:
        kernel_loading.load(own.path)
    line = text.split(line_end).index("int n = undefined_name;") + 1
    assert str(failed.value).startswith(f"{own.header}:{line}: ")


@skips.needs("nvcc")
@pytest.mark.slow
def test_headers_of_cuda_are_found_in_any_version(tmp_path):
    path = tmp_path / "new-forward (1).cu"
    names = '"/usr/local/cuda-8.0/include/cuda_runtime.h"', "</usr/local/cuda/targets/x86/include/crt/host_config.h>"
    header = "".join(f"#include {name}\n" for name in names)
    path.write_text(header + (TEMPLATES / "conv.cu").read_text())
    assert build.build(formats.recognise(path), arch="90").library.is_file()
    path.write_text(header + '#include "/opt/cuda/include/no_such_header.h"\n' + (TEMPLATES / "conv.cu").read_text())
    with pytest.raises(DeviceError) as failed:
        build.build(formats.recognise(path), arch="90")
    assert str(failed.value).startswith(f"{path}:3: ") and "no_such_header.h" in str(failed.value)


@pytest.mark.parametrize(
    "output, line",
    [
        ('In file included from x\n/a/k.cu(12): error: identifier "z" is undefined\n', 'k.cu:12: identifier "z" is'),
        ('/a/k.cu(12): error #20: expected a ";"\n\n2 errors', 'k.cu:12: expected a ";"'),
        ("/a/k.cu(3): warning #177-D: unused\n/a/own.h:7:2: fatal error: x.h: No such file\n", "/a/own.h:7: x.h: No"),
        ("/usr/bin/ld: o.o: undefined reference to `f(int)'\n", r"k.cu: f(int) is used but defined nowhere"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_12'\n", "k.cu: the compiler failed: nvcc fatal"),
        ("", "k.cu: the compiler failed and said nothing"),
    ],
)
def test_errors_of_compilers_and_linkers(output, line):
    assert build.first_error(output, Path("k.cu")).startswith(line)


@pytest.fixture
def own(tmp_path):
    """A kernel file with a header and a source file next to it, in a folder whose name has a space."""
    folder = tmp_path / "my kernel"
    shutil.copytree(SAMPLES / "right" / "helper", folder)
    # The content is unique, so that no other test has built it.
    (folder / "conv.cpp").write_text((folder / "conv.cpp").read_text() + f"// {tmp_path}\n")
    return SimpleNamespace(path=folder / "conv.cpp", header=folder / "tile.h", source=folder / "tile.cpp")


def test_an_unchanged_file_is_compiled_once(own):
    recognised = formats.recognise(own.path)
    first = build.build(recognised)
    again = build.build(recognised)
    assert (first.compiled, again.compiled) == (True, False) and first.library == again.library


@pytest.mark.parametrize("changed", ["path", "header", "source"])
def test_a_changed_file_is_compiled_again(own, changed):
    recognised = formats.recognise(own.path)
    before = build.build(recognised)
    file = getattr(own, changed)
    file.write_text(file.read_text() + "// changed\n")
    after = build.build(recognised)
    assert after.compiled and after.library != before.library


def test_the_compiler_is_part_of_the_key(own, monkeypatch, tmp_path):
    recognised = formats.recognise(own.path)
    before = build.build(recognised)
    other = tmp_path / "c++"
    other.write_text(f'#!/bin/sh\nexec {compilers.find_cxx()} "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("CXX", str(other))
    assert build.build(recognised).library != before.library


def test_a_compiler_of_several_words(own, monkeypatch, tmp_path):
    launcher = tmp_path / "launcher"
    launcher.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/launched\nexec "$@"\n')
    launcher.chmod(0o755)
    cxx = compilers.find_cxx()
    monkeypatch.setenv("CXX", f"{launcher} {cxx} -O1")
    assert build.build(formats.recognise(own.path)).compiled
    assert cxx in (tmp_path / "launched").read_text() and compilers.find_cxx() == cxx


def nested(place, other):
    """Create folders that are nested too deeply for Python's own removal of a tree."""
    folder = os.open(place, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)


PLANTED = {
    "folders without end": nested,
    "a link to the library of another": lambda place, other: (place / "plugin.so").symlink_to(other),
    "a second name of another's file": lambda place, other: os.link(other, place / "plugin.so"),
    "a FIFO": lambda place, other: os.mkfifo(place / "plugin.so"),
    "a folder": lambda place, other: (place / "plugin.so").mkdir(),
    "nothing": lambda place, other: None,
    "too much": lambda place, other: os.truncate(os.open(place / "plugin.so", os.O_CREAT | os.O_RDWR), 1 << 40),
}


@pytest.mark.parametrize("how", profiles.drawn(list(PLANTED), 2))
@pytest.mark.parametrize("code", [0, 1])
def test_files_that_a_compiler_leaves_are_not_trusted(own, tmp_path, cache, how, code):
    other = tmp_path / "other"
    other.write_bytes(b"not to be changed")
    places = []

    def compile(command, place):
        if code and places:  # the build of a known-good file
            assert not list(place.glob("*.gch"))
            return build.compile_here(command, place)
        places.append(place)
        for name in ("log", "room", "known-good", "support.h.gch"):
            (place / name).symlink_to(other)
        PLANTED[how](place, other)
        return build.Compiled(code, "conv.cpp:1:1: error: no such thing")

    with pytest.raises(DeviceError):
        build.build(formats.recognise(own.path), compile=compile)
    assert other.read_bytes() == b"not to be changed" and not places[0].exists()
    assert not [path for path in (cache / "fashion-infer" / "kernels").rglob("build-*")]
    assert build.build(formats.recognise(own.path)).compiled


def test_a_precompiled_header_is_not_loaded(tmp_path):
    """It is a dump of the compiler's memory, with which its author would control the compiler."""
    cxx = compilers.find_cxx()
    if "Free Software Foundation" not in subprocess.run([cxx, "--version"], capture_output=True, text=True).stdout:
        pytest.skip("only GCC looks for one")
    file = tmp_path / "conv.cpp"
    file.write_text('#include "size.h"\n' + (TEMPLATES / "conv.cpp").read_text())
    (tmp_path / "size.h").write_text("int from_the_precompiled_header[1];\n")
    words = build._command(formats.recognise(file), file, build.neighbours.of(file, None), None)
    flags = [
        word for word in words[1 : words.index("-x")] if word.startswith("-") and word not in ("-shared", "-include")
    ]
    subprocess.run([cxx, *flags, "-x", "c++-header", tmp_path / "size.h", "-o", tmp_path / "size.h.gch"], check=True)
    (tmp_path / "size.h").write_text("int from_the_header_itself[1];\n")
    library = build.build(formats.recognise(file)).library.read_bytes()
    assert b"from_the_header_itself" in library and b"from_the_precompiled_header" not in library


@pytest.mark.parametrize("path", profiles.drawn(["/bin/false", "no headers"], 1))
def test_a_broken_compiler_is_blamed(own, monkeypatch, tmp_path, path):
    compiler = path
    if path == "no headers":
        compiler = tmp_path / "c++"
        compiler.write_text(f'#!/bin/sh\nexec {compilers.find_cxx()} -nostdinc "$@"\n')
        compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(build.UnusableCompiler) as failed:
        build.build(formats.recognise(own.path))
    assert failed.value.exit_code == 4 and "\n" not in str(failed.value)
    monkeypatch.undo()
    with pytest.raises(DeviceError) as failed:
        build.build(formats.recognise(path_of("compile-error")))
    assert not isinstance(failed.value, build.UnusableCompiler)


def test_concurrent_processes_compile_once(own):
    code = (
        "import sys\nfrom fashion_infer.kernel_files import build, formats\n"
        "built = build.build(formats.recognise(sys.argv[1]))\nprint(built.library, built.compiled)"
    )
    command = [sys.executable, "-c", code, str(own.path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(3)]
    ends = [process.communicate(timeout=120)[0].split() for process in running]
    assert len({library for library, _ in ends}) == 1
    assert sorted(compiled for _, compiled in ends) == ["False", "False", "True"]


def test_concurrent_threads_register_once(own):
    with futures.ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(lambda _: kernel_loading.load(own.path), range(4)))
    assert len({kernel.name for kernel in loaded}) == 1
    own.source.write_text(own.source.read_text() + "// changed\n")
    assert kernel_loading.load(own.path).name not in {kernel.name for kernel in loaded}


def test_warnings_are_cached_and_shown_on_request(own, capfd):
    own.path.write_text(own.path.read_text() + "static int never() { return 1; }\n")
    for _ in range(2):  # the first time it is compiled, the second time it comes from the cache
        kernel_loading.load(own.path, verbose=True)
        assert "never" in capfd.readouterr().err
    kernel_loading.load(own.path)
    assert capfd.readouterr().err == ""


def test_without_a_compiler(own, monkeypatch):
    monkeypatch.setenv("CXX", "/nowhere/c++")
    with pytest.raises(DeviceError):
        kernel_loading.load(own.path)
    monkeypatch.undo()
    monkeypatch.setattr(compilers, "find_nvcc", lambda: None)
    with pytest.raises(DeviceError):
        kernel_loading.load(TEMPLATES / "conv.cu")


@skips.needs("nvcc")
@pytest.mark.slow
@pytest.mark.parametrize("path", profiles.drawn(ON_GPU, 1), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_files_for_the_gpu_compile(path):
    built = build.build(formats.recognise(path), arch="90")
    assert built.library.is_file()


@skips.needs("nvcc")
@pytest.mark.slow
@pytest.mark.parametrize("name", profiles.drawn(["images", "reset"], 1))
def test_a_file_without_its_own_interface_is_told_to_have_it_beside(tmp_path, name):
    path = tmp_path / "new-forward.cu"
    text = (SAMPLES / "right" / "own-header" / "new-forward.cu").read_text()
    if name == "reset":
        text = text.replace("images = B;", "").replace("images", "B") + "void GPUInterface::reset() {}\n"
    path.write_text(text)
    with pytest.raises(DeviceError) as failed:
        build.build(formats.recognise(path), arch="90")
    line = next(number for number, row in enumerate(text.splitlines(), 1) if name in row)
    assert str(failed.value).startswith(f"{path}:{line}: ") and "gpu-new-forward.h" in str(failed.value)


@skips.needs("nvcc")
@pytest.mark.slow
def test_a_texture_reference_is_refused():
    path = SAMPLES / "wrong" / "gpu-texture.cu"
    with pytest.raises(DeviceError) as failed:
        build.build(formats.recognise(path), arch="90")
    assert str(failed.value).startswith(f"{path}:4: ")


@pytest.fixture
def command_of_nvcc(tmp_path, monkeypatch):
    """A function that builds a file with a fake nvcc, whose output file contains the command line."""
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text('#!/bin/sh\nfor word; do [ "$last" = -o ] && echo "$*" > "$word"; last=$word; done\n')
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDACXX", str(nvcc))
    return lambda path, arch: build.build(formats.recognise(path), arch)


def test_the_architecture_is_part_of_the_key(command_of_nvcc):
    built = {arch: command_of_nvcc(TEMPLATES / "conv.cu", arch).library for arch in ("80", "90a")}
    assert built["80"] != built["90a"]
    for arch, library in built.items():
        assert f" -arch=sm_{arch} " in library.read_text()


def test_a_build_is_for_the_device_that_runs_it(monkeypatch):
    two = [SimpleNamespace(capability=(8, 0)), SimpleNamespace(capability=(9, 0))]
    monkeypatch.setattr(devices, "cuda_devices", lambda: two)
    monkeypatch.setattr(kernels, "table", lambda backend: ["a kernel"])
    monkeypatch.setattr(compilers, "find_nvcc", lambda: "nvcc")
    asked = []

    def stop(recognised, arch):
        asked.append(arch)
        raise DeviceError("stop")

    monkeypatch.setattr(build, "build", stop)
    for device in (0, 1):
        with pytest.raises(DeviceError):
            kernel_loading.load(TEMPLATES / "conv.cu", device=device)
    assert asked == ["80", "90a"]
    with pytest.raises(DeviceError):
        kernel_loading.load(TEMPLATES / "conv.cu", device=2)


@pytest.mark.parametrize(
    "name, library", [("cublas_v2.h", "libcublas.so.13"), ("/opt/cuda/include/cublasLt.h", "libcublasLt.so.13")]
)
def test_cublas_is_linked_if_a_file_includes_it(command_of_nvcc, monkeypatch, tmp_path, name, library):
    path = tmp_path / "uses.cu"
    path.write_text(f"#include <{name}>\n" + (TEMPLATES / "conv.cu").read_text())
    monkeypatch.setattr(compilers, "cuda_folders", lambda nvcc: [tmp_path])
    with pytest.raises(DeviceError):
        command_of_nvcc(path, "90")
    wheel = tmp_path / "lib"
    (tmp_path / "include").mkdir()
    wheel.mkdir()
    for file in (tmp_path / "include" / "cublas_v2.h", wheel / library):
        file.write_text("")
    command = command_of_nvcc(path, "90").library.read_text()
    assert (
        f"-L{wheel} -l:{library} -Xlinker=-rpath={wheel}" in command
        and f"-idirafter -Xcompiler={tmp_path / 'include'}" in command
    )
    path.write_text(f"// #include <{name}>\n" + (TEMPLATES / "conv.cu").read_text())
    assert library not in command_of_nvcc(path, "90").library.read_text()


def test_nvtx_ranges_compile_without_nvtx(tmp_path):
    source = tmp_path / "ranges.cpp"
    source.write_text(
        '#include <nvToolsExt.h>\nint main() { nvtxRangePush("a"); nvtxMark("b"); return nvtxRangePop(); }\n'
    )
    headers = ROOT / "custom_ops" / "submission" / "headers" / "cuda"
    made = subprocess.run([compilers.find_cxx(), f"-I{headers}", str(source), "-o", str(tmp_path / "ranges"), "-ldl"])
    assert made.returncode == 0


def test_a_file_is_a_kernel_like_any_other(own):
    kernel = kernel_loading.load(own.path)
    line = kernels.table("cpu")[-1]
    assert (line.name, line.summary, line.takes, line.precision) == (kernel.name, "c-cpu", "", "")
    x, weight = np.ones((2, 1, 5, 5), np.uint8), np.ones((1, 1, 2, 2))
    assert kernels.chosen_kernel(x.shape, weight.shape, "cpu", kernel.name) == kernel.name
    assert kernels.chosen_kernel(x.shape, weight.shape, "cpu") == "shifted"
    op_times.drain()
    kernels.convolve(x, weight, kernel.name, node=5)
    (record,) = op_times.drain()
    assert (record.first_node, record.kernel, record.item_bytes) == (5, kernel.name, 1)
    assert record.seconds > 0 and record.layer_seconds == 0 and record.findings == 0


def of_function(run, backend="cpu"):
    return plugin.described(run, backend, "a function", "key", True)


def test_a_name_is_registered_once():
    ones = of_function(lambda call: None)
    plugin.register("taken once", ones)
    for name in ("taken once", "naive", "auto", ""):
        with pytest.raises(UsageError):
            plugin.register(name, ones)


@pytest.mark.parametrize("field, value", [("abi", 2), ("backend", 7), ("host_memory", 0), ("batch_multiple", 0)])
def test_a_wrong_description_is_refused(field, value):
    wrong = of_function(lambda call: None)
    setattr(wrong.description, field, value)
    with pytest.raises(UsageError):
        plugin.register("wrong", wrong)


def test_what_a_function_raises_is_the_message():
    def run(call):
        raise ValueError("two\nlines")

    plugin.register("raises", of_function(run))
    with pytest.raises(DeviceError):
        kernels.convolve(np.ones((1, 1, 2, 2)), np.ones((1, 1, 1, 1)), "raises")


def test_a_call_gets_nan_outputs_and_float32_inputs():
    seen = []

    def run(call):
        x, y = plugin.floats_at(call.x, [4]), plugin.floats_at(call.y, [4])
        seen.append((call.conv.x_type, list(x), np.isnan(y).all(), call.examine))
        y[:] = 2 * x

    plugin.register("doubles", of_function(run))
    x = np.array([1, 2, 3, 255], np.uint8).reshape(1, 1, 2, 2)
    y = kernels.convolve(x, np.full((1, 1, 1, 1), 2.0), "doubles")
    assert seen == [(bindings.FLOAT32, [1, 2, 3, 255], True, 0)]
    assert y.ravel().tolist() == [2, 4, 6, 510]


def test_a_prebuilt_library(tmp_path):
    target = tmp_path / "mine.so"
    subprocess.run(
        [compilers.find_cxx(), "-shared", "-fPIC", "-O1", str(TEMPLATES / "conv.cpp"), "-o", str(target)], check=True
    )
    found = kernel_loading.check(target, shapes=SMALL)
    assert found.right and (found.file.format.name, found.file.backend) == ("prebuilt", "cpu")


def test_a_plug_in_without_a_kernel(tmp_path):
    source, target = tmp_path / "none.cpp", tmp_path / "none.so"
    source.write_text('extern "C" void* fops_kernel_plugin_main() { return nullptr; }\n')
    subprocess.run([compilers.find_cxx(), "-shared", "-fPIC", str(source), "-o", str(target)], check=True)
    with pytest.raises(DeviceError):
        kernel_loading.load(target)


def test_the_backend_of_a_library(tmp_path):
    source, target = tmp_path / "mine.cpp", tmp_path / "mine.so"
    named = 'extern const char* runtime;\nconst char* runtime = "libcudart.so.13";\n'
    source.write_text((TEMPLATES / "conv.cpp").read_text() + named)
    subprocess.run([compilers.find_cxx(), "-shared", "-fPIC", "-O1", str(source), "-o", str(target)], check=True)
    assert plugin.backend_of(target) == "gpu"
    if not has_device():
        with pytest.raises(DeviceError):
            kernel_loading.load(target)
    found = kernel_loading.check(target, "c-cpu", shapes=SMALL)
    assert found.right and found.file.backend == "cpu"


def test_a_prebuilt_plug_in(own, tmp_path):
    target = tmp_path / "whole.so"
    shutil.copy(build.build(formats.recognise(own.path)).library, target)
    assert kernel_loading.check(target, shapes=SMALL).right


@pytest.fixture
def torch_of_numpy(tmp_path, monkeypatch):
    """A fake PyTorch on the CPU, whose tensors are NumPy's arrays. The value is the folder with its module."""
    (tmp_path / "torch.py").write_text("def from_numpy(array):\n    return array\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    yield tmp_path
    sys.modules.pop("torch", None)


LOOPS = """
import numpy as np

def conv(x, k):
    windows = np.lib.stride_tricks.sliding_window_view(x, k.shape[2:], axis=(2, 3))
    return np.einsum("bchwpq,mcpq->bmhw", windows, k)
"""


@pytest.mark.parametrize(
    "text",
    [
        LOOPS + "def conv_forward(x, k):\n    return conv(x, k)\n",
        LOOPS + "def custom_kernel(data):\n    x, k, y = data\n    y[...] = conv(x, k)\n    return y\n",
        "from task import input_t, output_t\n"
        + LOOPS
        + "def custom_kernel(data: input_t) -> output_t:\n    x, k = data\n    return conv(x, k)\n",
        LOOPS + "def twice(f):\n    return f\n\nconv_forward = twice(conv)\n",
        "from impl import conv as conv_forward\n",
    ],
)
def test_python_kernels(torch_of_numpy, text):
    path = torch_of_numpy / "mine.py"
    (torch_of_numpy / "impl.py").write_text(LOOPS)
    path.write_text(text)
    found = kernel_loading.check(path, shapes=SMALL)
    assert found.right and found.shapes[0].op_seconds > 0


def test_leetgpu_in_python_supports_one_channel(torch_of_numpy):
    path = torch_of_numpy / "mine.PY"
    path.write_text(
        LOOPS + "def solve(input, kernel, output, input_rows, input_cols, kernel_rows, kernel_cols):\n"
        "    assert input.shape == (input_rows, input_cols) and kernel.shape == (kernel_rows, kernel_cols)\n"
        "    output[...] = conv(input[None, None], kernel[None, None])[0, 0]\n"
    )
    found = kernel_loading.check(path, shapes=[*SMALL, (1, 28, 6, 5)])
    assert found.right and [one.shape[1] for one in found.shapes] == [1]


def test_python_kernels_that_fail(torch_of_numpy, monkeypatch):
    path = torch_of_numpy / "fails.py"
    path.write_text("def conv_forward(x, k):\n    return x\n")
    found = kernel_loading.check(path, shapes=SMALL)
    assert "of shape (1, 2, 13, 13), not (1, 40, 10, 10)" in found.shapes[0].reason
    path.write_text("def conv_forward(x, k):\n    pass\n")
    assert "None" in kernel_loading.check(path, shapes=SMALL).shapes[0].reason
    path.write_text("def conv_forward(x, k):\n    y = x[0]\n    return y[99]\n")
    monkeypatch.chdir(torch_of_numpy)
    for named in (path, path.name):
        assert "line 3" in kernel_loading.check(named, shapes=SMALL).shapes[0].reason
    path.write_text("import no_such_module\ndef conv_forward(x, k): pass\n")
    with pytest.raises(DeviceError):
        kernel_loading.load(path)
    path.write_text("x = 1\ny = x / 0\ndef conv_forward(x, k): pass\n")
    with pytest.raises(UsageError):
        kernel_loading.load(path)


def test_python_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DeviceError):
        kernel_loading.load(TEMPLATES / "conv.py")


def has_device():
    try:
        return bool(devices.cuda_devices())
    except DeviceError:
        return False


@pytest.mark.slow
def test_a_file_for_the_gpu_without_a_gpu():
    if compilers.find_nvcc() is None or not kernels.table("gpu") or has_device():
        pytest.skip("needs nvcc, a library with CUDA, and no GPU")
    path = TEMPLATES / "new-forward-2021.cu"
    with pytest.raises(DeviceError) as failed:
        kernel_loading.load(path)
    assert "\n" not in str(failed.value)
    kernel = kernel_loading.load(path, arch="90")
    assert (kernel.backend, kernel.host_memory, kernel.batch_multiple) == ("gpu", True, 1000)
    assert kernels.table("gpu")[-1].name == kernel.name
    with pytest.raises(DeviceError):
        kernels.convolve(np.ones((1, 1, 2, 2)), np.ones((1, 1, 1, 1)), kernel.name, "gpu")


def test_output_of_concurrent_calls_is_not_mixed(capfd):
    def run(call):
        os.write(1, b"from inside\n")

    plugin.register("talks", of_function(run))
    with futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: kernels.convolve(np.ones((1, 1, 2, 2)), np.ones((1, 1, 1, 1)), "talks"), range(40)))
    out, err = capfd.readouterr()
    assert (out, err) == ("", "[talks] from inside\n" * 40)


def test_a_forked_process_captures_its_own_output(capfd):
    plugin.register("tells its process", of_function(lambda call: os.write(1, f"{os.getpid()}\n".encode())))
    x, weight = np.ones((1, 1, 2, 2)), np.ones((1, 1, 1, 1))
    kernels.convolve(x, weight, "tells its process")
    child = os.fork()
    if child == 0:
        kernels.convolve(x, weight, "tells its process")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    kernels.convolve(x, weight, "tells its process")
    lines = capfd.readouterr().err.splitlines()
    assert lines == [f"[tells its process] {pid}" for pid in (os.getpid(), child, os.getpid())]


@skips.needs("nvcc")
@pytest.mark.slow
@pytest.mark.parametrize("header", profiles.drawn(["matmul.h", "../../src/layer/custom/matmul.h"], 1))
def test_the_courses_matrix_product_is_supplied(tmp_path, header):
    """Without the course's tree, a milestone's file is built with the supplied header and source of matmul."""
    text = (SAMPLES / "right/matmul/new-forward.cu").read_text()
    text = text.replace("matmul.h", header).replace("gpu-new-forward.h", header.replace("matmul", "gpu-new-forward"))
    text = text.replace("matrixMultiply<<<", "matrixMultiplyShared<<<").replace(
        "taps, n);", "taps, taps, n, Map_out, n);"
    )
    path = tmp_path / "new-forward.cu"
    path.write_text(text)
    assert build.build(formats.recognise(path), arch="80").library.is_file()
