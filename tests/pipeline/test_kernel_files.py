"""Kernel files through the command line: correct ones, incorrect ones, and ones that crash, hang or do not build."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import kernel_loading
import profiles
import pytest
import reference
from planted_bugs import TEMPLATES, codes_of, path_of

from fashion_infer import check, infer
from fashion_infer.errors import CheckFailed, DeviceError, UsageError
from fashion_infer.kernel_files import formats, paths
from fashion_infer.library import devices, kernels
from fashion_infer.system import compilers

ROOT = Path(__file__).resolve().parents[2]
CPU = [entry.name for entry in formats.FORMATS if entry.backend == "cpu"]
RUN = ("run", "--data", "synthetic", "--n", "200")
BENCH = ("bench", "conv", "--against", "none", "--batch", "40", "--repeat", "1")
pytestmark = pytest.mark.usefixtures("kernel_cache")


@pytest.fixture
def captured(capfd):
    return capfd


@pytest.fixture
def one_line(invoke):
    """A function that runs a command, which must end with `code` and an error of one line; it gives that and stdout."""

    def call(code, *arguments):
        found, out, err = invoke(*arguments)
        assert found == code and "Traceback" not in err, err
        line = err.splitlines()[-1]
        assert line.startswith("fashion-infer: ")
        return line, out

    return call


@pytest.mark.slow
@pytest.mark.parametrize("name", profiles.drawn(CPU, 1))
def test_a_new_file_is_correct_and_runs_the_network(invoke, run_program, tmp_path, name):
    file = tmp_path / formats.find(name).template
    code, out, err = invoke("kernel", "new", "--format", name)
    assert (code, err) == (0, "")
    file.write_text(out)
    code, out, err = invoke("kernel", "check", file, "--edition", "fa2017")
    assert code == 0 and out.startswith(f"{file.name} is correct for "), err
    end = run_program(*RUN, "--kernel", file)
    assert end.returncode == 0, end.stderr
    lines, builtin = end.stdout.splitlines(), invoke(*RUN, "--kernel", "naive", "--backend", "cpu")[1].splitlines()
    assert lines[:3] == builtin[:3] and lines[3].startswith("Op Time: ") and lines[4] == builtin[4]
    assert f"{file.name} (format {name}):" in lines


def test_new_in_every_format(invoke):
    for entry in formats.FORMATS:
        code, out, _ = invoke("kernel", "new", "--format", entry.name)
        assert (code == 0 and out) if entry.template else (code == 2)
    assert invoke("kernel", "new", "--format", "fortran")[0] == 2
    code, out, err = invoke("kernel", "new")
    assert code == 2 and not out and all(entry.name in err for entry in formats.FORMATS if entry.template)


def test_formats(invoke):
    code, out, _ = invoke("kernel", "formats")
    assert code == 0 and all(entry.name in out for entry in formats.FORMATS)


def test_check_of_a_wrong_file(one_line):
    file = path_of("boundary")
    line, out = one_line(1, "kernel", "check", file, "--layer", "1,28,6,5")
    assert line.startswith("fashion-infer: boundary.cpp ") and line.partition(": ")[2] not in out  # said once
    found = json.loads(one_line(1, "kernel", "check", file, "--edition", "fa2017", "--json")[1])
    assert [one["code"] for one in found["layers"]] == ["border"] and not found["correct"]
    assert found["layers"][0]["first"] == [0, 0, 0, 23] and found["layers"][0]["got"] == 0
    assert one_line(2, "kernel", "check", file, "--edition", "fa1917")


def test_an_unknown_format_is_a_one_line_error(one_line, tmp_path):
    file = tmp_path / "poem.cu"
    file.write_text("int roses;\n")
    for command in (["kernel", "check", file], [*RUN, "--kernel", file], [*BENCH, "--kernels", file]):
        line, _ = one_line(2, *command)
        assert "found no function; c-gpu wants" in line and "`fashion-infer kernel new --format c-gpu`" in line
    assert "cannot read the kernel file none.cu" in one_line(2, *RUN, "--kernel", "./none.cu")[0]
    assert "unknown format 'x'" in one_line(2, *RUN, "--kernel", file, "--format", "x")[0]


@pytest.mark.slow
def test_format_selects_one_of_two_formats(invoke, one_line, tmp_path):
    """--format selects one of the two formats in a file. `make test-all` also tests `verify` and `profile`."""
    file, plain = tmp_path / "both.cpp", TEMPLATES / "conv.cpp"
    right, wrong = TEMPLATES / "cpu-new-forward.cc", path_of("zero")
    file.write_text(right.read_text() + wrong.read_text().replace("loops.h", str(wrong.parent / "loops.h")))
    more = (("verify", "--model", "ece408-low", "--data", "synthetic"), ("profile", *RUN[1:], "--turns", "0"))
    for command in (RUN, *profiles.pick((), more)):
        assert invoke(*command, "--kernel", file, "--format", "minidnn-cpu")[0] == 0
        one_line(1, *command, "--kernel", file, "--format", "c-cpu")
    code, out, _ = invoke(*BENCH, "--kernels", plain, file, "--format", "c-cpu,minidnn-cpu")
    assert code == 0 and "both.cpp" in out


def test_which_names_are_paths():
    assert all(map(paths.is_path, ("a.cu", "./conv", "../x/y", "new-forward.CUH", "mine.py", "lib.so")))
    assert not any(map(paths.is_path, ("auto", "naive", "tensor-core", "tensor-core/any-shape", "a.txt")))
    assert paths.among(["a.cu,naive", "ladder", " b.h "]) == ["a.cu", "b.h"]


@pytest.mark.parametrize("name", profiles.drawn(["few-images", "writes-after-end"], 1))
def test_a_wrong_kernel(one_line, name):
    file = path_of(name)
    line, out = one_line(1, *RUN, "--kernel", file)
    found = kernel_loading.check(file, edition="fa2017")
    assert found.shapes[0].reason in line and found.causes[0].code in codes_of(name)
    assert name == "writes-after-end" or out.splitlines()[2] == "New Inference"


@pytest.mark.slow
@pytest.mark.parametrize("command", profiles.drawn([RUN, ("profile", *RUN[1:]), ("kernel", "check")], 1))
def test_a_kernel_that_hangs(one_line, command):
    option = [] if command[0] == "kernel" else ["--kernel"]
    line, _ = one_line(1, *command, *option, path_of("hangs"), "--timeout", "1")
    assert "did not end within 1 s" in line


@pytest.mark.slow
def test_a_library_that_hangs_while_it_is_loaded(one_line, tmp_path):
    source, target = tmp_path / "mine.cpp", tmp_path / "mine.so"
    source.write_text(
        '#include <unistd.h>\nextern "C" void* fops_kernel_plugin_main() { return nullptr; }\n'
        "static int waits = [] { for (;;) sleep(1); return 0; }();\n"
    )
    subprocess.run([compilers.find_cxx(), "-shared", "-fPIC", str(source), "-o", str(target)], check=True)
    line, _ = one_line(1, *RUN, "--kernel", target, "--timeout", "1")
    assert line == "fashion-infer: mine.so did not end within 1 s (--timeout)"


@pytest.mark.slow
def test_a_process_started_by_a_kernel_ends_with_the_run(tmp_path, run_program):
    file, note = tmp_path / "forks.cpp", tmp_path / "pid"
    file.write_text(
        "#include <cstdio>\n#include <unistd.h>\n"
        + (TEMPLATES / "conv.cpp").read_text()
        + "static int forked = [] {\n  const int child = fork();\n  if (child == 0) for (;;) sleep(1);\n"
        f'  FILE* note = fopen("{note}", "w");\n  fprintf(note, "%d", child);\n  fclose(note);\n'
        "  return child;\n}();\n"
    )
    assert run_program(*RUN, "--kernel", file).returncode == 0
    assert ended(int(note.read_text()))


def test_the_kernels_process_ends_when_the_command_is_killed():
    arguments = [sys.executable, "-m", "fashion_infer", *RUN, "--kernel", str(path_of("hangs"))]
    parent = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    line = parent.stdout.readline()  # when "Loading ..." is printed, the child process exists
    assert line.startswith(b"Loading")
    (child,) = children.read_text().split()
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert ended(int(child))


def ended(pid):
    """Return whether a process ends within ten seconds. A process that has ended but was not waited for counts."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    return False


VERIFY = ("verify", "--model", "baseline", "--data", "synthetic", "--kernel")


@pytest.mark.slow
@pytest.mark.skipif(profiles.pick(True, False), reason="runs 12,000 images: part of make test-all")
def test_verify_with_a_correct_file(invoke):
    code, out, err = invoke(*VERIFY, TEMPLATES / "conv.cpp")
    assert code == 0 and out.endswith(" checks passed\n"), err
    assert "operator   custom   cpu" in out and "fused" not in out and "builtin" not in out


@pytest.mark.slow
def test_verify_with_an_incorrect_file(one_line):
    assert not one_line(1, *VERIFY, path_of("boundary"))[1]


def test_verify_with_a_kernels_name(invoke):
    code, out, _ = invoke("verify", "--model", "ece408-low", "--data", "synthetic", "--kernel", "shifted")
    assert code == 0 and "fused" not in out and "custom" in out
    assert invoke("verify", "--model", "ece408-low", "--kernel", "quick")[0] == 2


@pytest.mark.slow
def test_bench_with_files_and_the_ladder(invoke, tmp_path):
    data, plot, page = tmp_path / "k.json", tmp_path / "k.png", tmp_path / "k.md"
    files = TEMPLATES / "conv.cpp", TEMPLATES / "cpu-new-forward.cc"
    names = f"{files[0]},{files[1]}", "ladder"
    code, out, err = invoke(*BENCH, "--kernels", *names, "--json", "--plot", plot, "--markdown", page)
    assert code == 0, err
    data.write_text(out)
    rows = {row["name"]: row for row in json.loads(out)["cases"][0]["rows"]}
    assert list(rows) == ["fill", "copy", "conv.cpp", "cpu-new-forward.cc", *reference.own_kernels("cpu")]
    for file in files:
        row = rows[file.name]
        assert row["file"] == str(file) and row["precision"] == "float32" and row["error"] < 1e-6
        assert row["median_ms"] > 0 and row["gb_s"] > 0 and row["step"] is None
    text = page.read_text()
    assert "class" in text and plot.stat().st_size > 1000 and "The time of a kernel file is its Op Time" in text
    code, out, _ = invoke("compare", data, data)
    assert code == 0 and "fa2017 convolution 1: conv.cpp" in out


def test_from_python():
    result = infer("ece408-high", n=100, data="synthetic", kernel=str(TEMPLATES / "conv.cpp"))
    assert result.backend == "cpu" and result.mode == "operator"
    # The library's name for the file is conv.cpp#2, for example, if another file of that name was registered before.
    assert result.layers[0].kernel.partition("#")[0] == "conv.cpp"
    assert result.submission.right and result.submission.precision == "float32"
    with pytest.warns(UserWarning, match="boundary.cpp"):
        wrong = infer("ece408-high", n=100, data="synthetic", kernel=str(path_of("boundary")))
    assert wrong.submission.shapes[0].code == "border" and wrong.submission.changed > 0
    assert wrong.submission.shapes[0].reason in repr(wrong) and len(repr(wrong.submission)) < 300
    found = check(path_of("boundary"), edition="fa2017")
    assert not found.right and [one.code for one in found.shapes] == ["border"]
    assert found.sentence in repr(found) and found._repr_html_()
    with pytest.raises(CheckFailed):
        infer("ece408-high", n=10, data="synthetic", kernel=str(path_of("throws")))
    with pytest.raises(UsageError):
        infer("baseline", n=10, data="synthetic", kernel=str(TEMPLATES / "conv.cpp"))


def no_gpu():
    try:
        return not kernels.table("gpu") or not devices.cuda_devices()
    except DeviceError:
        return True


@pytest.mark.slow
@pytest.mark.skipif(not no_gpu(), reason="this machine has a GPU")
def test_without_a_gpu(one_line):
    file = TEMPLATES / "conv.cu"
    for command in ([*RUN, "--kernel", file], [*BENCH, "--kernels", file], ["kernel", "check", file]):
        line, out = one_line(4, *command)
        assert f"{file} cannot run here (format c-gpu): " in line and out == ""


def test_the_example_in_the_header_compiles_and_runs(tmp_path):
    header = (ROOT / "custom_ops" / "include" / "fashion_ops_plugin.h").read_text()
    example = header.split("A complete example:\n", 1)[1].split(" */", 1)[0]
    source = tmp_path / "mine.c"
    source.write_text("\n".join(line[3:] for line in example.splitlines()))
    target = tmp_path / "mine.so"
    command = [shutil.which("cc"), "-shared", "-fPIC", "-O1", "-Wall", "-Werror", f"-I{ROOT / 'custom_ops/include'}"]
    subprocess.run([*command, str(source), "-o", str(target)], check=True)
    found = kernel_loading.check(target, shapes=[(2, 13, 40, 4)])
    assert found.right and found.file.format.name == "prebuilt"


@pytest.mark.slow
def test_a_library_named_without_a_slash(tmp_path):
    command = [compilers.find_cxx(), "-shared", "-fPIC", "-O2", str(TEMPLATES / "conv.cpp"), "-o", tmp_path / "mine.so"]
    subprocess.run(command, check=True)
    (tmp_path / "random.py").write_text("raise SystemExit('the current folder is no place for modules')\n")
    script = "import sys; del sys.path[0]; from fashion_infer.cli.main import main; main()"  # like an installed program
    words = [sys.executable, "-c", script, *RUN, "--kernel", "mine.so"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    end = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
    assert end.returncode == 0 and "mine.so (format prebuilt):" in end.stdout, end.stderr


@pytest.mark.slow
def test_two_files_of_the_same_name(invoke, tmp_path):
    files = []
    for folder in ("v1", "v2"):
        file = tmp_path / folder / "conv.cpp"
        file.parent.mkdir()
        file.write_text(f"// {folder}\n{(TEMPLATES / 'conv.cpp').read_text()}")
        files.append(file)
    code, out, err = invoke(*BENCH, "--kernels", files[0], "--kernels", files[1])
    assert code == 0 and "conv.cpp#" in out, err
