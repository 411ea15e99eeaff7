"""The format of a kernel file is recognised from its code; comments, strings and white space do not matter."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_bugs import SAMPLES, path_of

from fashion_infer.errors import UsageError
from fashion_infer.kernel_files import formats, neighbours, source

INTS = ["int B", "int M", "int C", "int H", "int W", "int K"]


def named(tmp_path, text, suffix=".cu"):
    path = tmp_path / f"kernel{suffix}"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "file, name, defines",
    [
        ("gpu-constant.cu", "minidnn-2021", ("FOPS_HOST_OUTPUT_CONST", "FOPS_HOST_POINTERS_CONST")),
        ("own-header/new-forward.cu", "minidnn-2021", ("FOPS_HOST_OUTPUT_CONST", "FOPS_HOST_POINTERS_CONST")),
        ("gpu-mxnet-macros.cuh", "mxnet-gpu", ()),
        ("gpu-template-only.cuh", "mxnet-gpu", ()),
        ("gpu-2020-half.cu", "minidnn-2020", ("FOPS_COPIES_INSIDE", "FOPS_HOST_POINTERS_CONST")),
        ("gpu-no-stream.cu", "c-gpu", ()),
        ("gpu-solve.cu", "leetgpu", ()),
        ("cpu-stride.cc", "minidnn-cpu", ("FOPS_STRIDE",)),
        ("mxnet-cpu-macros.h", "mxnet-cpu", ()),
        ("plain.c", "c-cpu", ()),
        ("kernelbot.py", "python", ()),
    ],
)
def test_samples(file, name, defines):
    found = formats.recognise(path_of(file))
    assert (found.format.name, found.defines) == (name, defines)


def test_a_stream_as_last_parameter():
    assert formats.recognise(SAMPLES.parent.parent / "fashion_infer/kernel_files/templates/conv.cu").defines == (
        "FOPS_STREAM",
    )


def test_const_host_pointers(tmp_path):
    ints = ", ".join(INTS)
    pointers = "float **dy, float **dx, float **dk"
    text = f"void GPUInterface::conv_forward_gpu_prolog(float *y, float *x, float *k, {pointers}, {ints}) {{}}"
    assert formats.recognise(named(tmp_path, text)).defines == ()
    text = text.replace("float *y, float *x", "const float *y, float const *x")
    found = formats.recognise(named(tmp_path, text))
    assert found.defines == ("FOPS_HOST_OUTPUT_CONST", "FOPS_HOST_POINTERS_CONST")


C = 'extern "C" void conv_forward(const float* x, const float* k, float* y, ' + ", ".join(INTS) + ") {}"


@pytest.mark.parametrize(
    "text",
    [
        f"// {C}\n",
        f"/* {C} */",
        'const char* s = R"x(' + C + ')x";',
        C.replace(" {}", ";"),  # only a prototype
        C.replace("{}", "").replace("void", "") + ";",
        C.replace(", int K", ""),
        C.replace('extern "C" ', ""),
        "",
        "int main() { conv_forward(x, k, y, 1, 2, 3, 4, 5, 6); }",
    ],
)
def test_text_that_only_looks_like_a_kernel(tmp_path, text):
    with pytest.raises(UsageError):
        formats.recognise(named(tmp_path, text, ".cpp"))


@pytest.mark.parametrize(
    "text, found, nearest",
    [
        ("not-extern-c", 'conv_forward(x, k, y, B, M, C, H, W, K) without extern "C"', "c-cpu"),
        ("../wrong/gpu-tensara.cu", "solution(", "c-gpu"),
        (
            "int least(int a, int b) { if (a) { } }\nvoid conv2d_cpu(float* in[], int n = 1) {} int main() {}",
            "conv2d_cpu(in, n)",
            "c-cpu",
        ),
        (
            "void GPUInterface :: conv_forward_gpu_prolog(const float* y, int B) {} void f(int a, int b, int c) {}",
            "GPUInterface::conv_forward_gpu_prolog(y, B)",
            "minidnn-2021",
        ),
        ("void conv_forward_cpu(float *y) {}", "conv_forward_cpu(y)", "minidnn-cpu"),
        ("// void f() {}", "no function", "c-cpu"),
    ],
)
def test_almost_correct_files_are_told_the_nearest_signature(tmp_path, text, found, nearest):
    suffix = ".cu" if "GPU" in text else ".cpp"
    path = path_of(text) if " " not in text else named(tmp_path, text, suffix)
    with pytest.raises(UsageError) as refused:
        formats.recognise(path)
    entry = formats.find(nearest)
    assert f"found {found}" in str(refused.value) and f"; {nearest} wants {entry.signature}; " in str(refused.value)


def test_formats_for_several_files():
    files = ["a.cu", "b.cu"]
    assert formats.insisted(files, None) == [None, None] == formats.insisted(files, None)
    assert formats.insisted(files, "minidnn") == ["minidnn-2021"] * 2
    assert formats.insisted(files, "c-gpu, mxnet-gpu") == ["c-gpu", "mxnet-gpu"]
    for names in ("c-gpu,c-gpu,c-gpu", "c-gpu,x"):
        with pytest.raises(UsageError):
            formats.insisted(files, names)
    with pytest.raises(UsageError):
        formats.insisted([], "c-gpu")


def test_the_requested_backend_of_a_library(tmp_path):
    library = tmp_path / "mine.so"
    library.write_bytes(b"\x7fELF\0conv_forward\0")
    assert formats.recognise(library).backend == "any"
    for name, backend in (("c-cpu", "cpu"), ("c-gpu", "gpu"), ("prebuilt", "any")):
        found = formats.recognise(library, name)
        assert (found.format.name, found.backend) == ("prebuilt", backend)
    with pytest.raises(UsageError):
        formats.recognise(library, "minidnn-2021")


@pytest.mark.parametrize(
    "suffix, name, backend", [(".cu", "c-gpu", "cpu"), (".cu", "c-cpu", "gpu"), (".cpp", None, "gpu")]
)
def test_a_format_or_file_for_another_backend(tmp_path, suffix, name, backend):
    with pytest.raises(UsageError):
        formats.recognise(named(tmp_path, C, suffix), name, backend)


def test_requested_formats_and_backends(tmp_path):
    both = named(tmp_path, C + "\nvoid conv_forward_cpu(float* y, float* x, float* k, " + ", ".join(INTS) + ") {}")
    assert formats.recognise(both).format.name == "c-gpu"
    assert formats.recognise(both, "minidnn-cpu").format.name == "minidnn-cpu"
    assert formats.recognise(both, backend="cpu").format.name == "minidnn-cpu"
    for name in ("minidnn-2023", "fortran"):
        with pytest.raises(UsageError):
            formats.recognise(both, name)


@pytest.mark.parametrize("entry", [entry for entry in formats.FORMATS if entry.template])
def test_a_template_fits_no_other_format(tmp_path, entry, invoke):
    path = tmp_path / f"renamed{Path(entry.template).suffix}"
    path.write_text(formats.template(entry.name))
    assert formats.recognise(path).format is entry
    for other in formats.FORMATS:
        if other is entry:
            assert formats.recognise(path, other.name).format is entry
            continue
        with pytest.raises(UsageError) as refused:
            formats.recognise(path, other.name)
        assert "\n" not in str(refused.value)
    other = "minidnn-2023" if entry.name != "minidnn-2023" else "c-gpu"
    code, out, err = invoke("kernel", "check", path, "--format", other)
    assert code == 2 and not out and err.count("\n") == 1


def test_python_in_utf_16_is_refused_by_name(tmp_path):
    path = tmp_path / "conv.py"
    path.write_text(formats.template("python"), encoding="utf-16")
    with pytest.raises(UsageError) as refused:
        formats.recognise(path)
    assert "UTF-16" in str(refused.value)


def test_a_path_that_is_not_utf_8_is_refused(tmp_path):
    path = tmp_path / os.fsdecode(b"conv\xff.cpp")
    path.write_text(formats.template("c-cpu"))
    with pytest.raises(UsageError):
        formats.recognise(path)


def test_files_that_cannot_be_kernels(tmp_path):
    binary = named(tmp_path, "\x7fELF" + "\0" * 100, ".so")
    noise = named(tmp_path, "\x00\xff\x7f{{{((", ".bin")
    for path in (tmp_path / "missing.cu", tmp_path, binary, noise, named(tmp_path, "def conv_forward(:", ".py")):
        with pytest.raises(UsageError):
            formats.recognise(path)


WHITE = st.text(alphabet=" \t\n", max_size=3)
# White space and comments with characters that could mislead the recognition.
NOISE = st.one_of(
    st.sampled_from([" ", "\n"]),
    st.text(alphabet="abc{}()\",'*;", max_size=12).map(lambda t: "/*" + t.replace("*/", "") + " */"),
    st.text(alphabet="abc{}()\",'*;/", max_size=12).map(lambda t: "//" + t + "\n"),
)


@given(st.lists(st.tuples(WHITE, NOISE), min_size=30, max_size=30))
def test_noise_between_tokens_changes_nothing(noise):
    pointers = ["const float*", "x", ",", "const float*", "k", ",", "float*", "y"]
    tokens = ['extern "C"', "void", "conv_forward", "(", *pointers]
    for name in INTS:
        tokens += [",", name]
    tokens += [")", "{", "}"]
    assert len(tokens) <= len(noise)
    text = "".join(token + white + between for token, (white, between) in zip(tokens, noise))
    code = source.stripped('const char* a = "/* \\" ("; char b = \'"\'; int c = 10\'000;\n' + text)
    functions = source.definitions(code, "conv_forward")
    assert [len(function.parameters) for function in functions] == [9]
    assert 'extern "C"' in code


@given(st.text(max_size=200))
def test_any_text_is_stripped_without_failing(text):
    code = source.stripped(text)
    assert "//" not in code
    source.definitions(code, "conv_forward")


def test_template_arguments_are_one_parameter():
    code = "void f(Tensor<cpu, 4, T> &y, int (*g)(int, int), std::map<int, std::pair<a, b>> m) noexcept {}"
    assert source.definitions(code, "f")[0].parameters == [
        "Tensor<cpu, 4, T> &y",
        "int (*g)(int, int)",
        "std::map<int, std::pair<a, b>> m",
    ]


def test_nested_and_long_parameters_are_read_once():
    """Quadratic time would be minutes."""
    nested = "f(int a, " * 20_000 + ") {" * 20_000
    assert [len(one.parameters) for one in source.definitions(nested, "f")] == [2]
    (long,) = source.definitions(f"f({'x' * (8 << 20)}, int b) {{", "f")
    assert long.parameters == ["x" * (8 << 20), "int b"]


def test_included_headers_and_their_sources_are_found(tmp_path):
    (tmp_path / "sub").mkdir()
    files = {
        "k.cu": '#include "a.h"\n# include <cmath>\n#include "k.h"\n',
        "k.h": "",
        "a.h": '#include "sub/b.cuh"\n',
        "sub/b.cuh": '#include "../a.h"\n',
        "sub/b.cu": '#include "c.h"\n',
        "sub/c.h": "",
        "alone.cu": "",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = neighbours.of(tmp_path / "k.cu")
    names = [str(file.relative_to(tmp_path)) for file in found.included]
    assert names == ["a.h", "k.h", "sub/b.cuh", "sub/c.h"]
    assert [str(file.relative_to(tmp_path)) for file in found.helpers] == ["sub/b.cu"]


def test_a_file_that_includes_a_kernel_file(tmp_path):
    (tmp_path / "m3.cu").write_text((SAMPLES / "right/matmul/new-forward.cu").read_text())
    assert formats.recognise(named(tmp_path, '#include "m3.cu"\n')).format.name == "minidnn-2021"


def test_headers_of_the_courses_tree(tmp_path):
    """For a file in a milestone's folder, headers of the course's tree are found and their sources compiled too."""
    custom, milestone = tmp_path / "src/layer/custom", tmp_path / "m3/req_0"
    for folder in (custom, milestone):
        folder.mkdir(parents=True)
    for name in ("matmul.h", "matmul.cu"):
        (custom / name).write_text("")
    (milestone / "kernel.cu").write_text('#include "matmul.h"\n#include "gpu-new-forward.h"\n')
    found = neighbours.of(milestone / "kernel.cu")
    assert found.all == [custom / "matmul.h", custom / "matmul.cu"]
    assert (found.folders, found.missing) == ([custom], ["gpu-new-forward.h"])
    assert neighbours.of(milestone / "kernel.cu", milestone).all == []


@pytest.mark.parametrize(
    "text",
    [
        "conv_forward = torch.compile(f)\n",
        "from impl import conv_forward\n",
        "conv_forward: object = f\n",
        "\ufeffdef conv_forward(x, k):\n    return x\n",
        "from task import input_t\ndef custom_kernel(data: input_t):\n    return data\n",
    ],
)
def test_forms_of_python_kernels(tmp_path, text):
    assert formats.recognise(named(tmp_path, text, ".py")).format.name == "python"


@pytest.mark.parametrize(
    "text, words",
    [
        ("def convolve(x, k):\n    pass\n", "convolve(x, k)"),
        ("class Net:\n    def forward(self, x):\n        pass\n", "the class Net"),
        ("def f(:\n", "line 1"),
    ],
)
def test_python_files_without_a_kernel(tmp_path, text, words):
    with pytest.raises(UsageError) as refused:
        formats.recognise(named(tmp_path, text, ".py"))
    assert words in str(refused.value)
