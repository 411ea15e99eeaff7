"""The steps of docs/adding-a-kernel.md work: a kernel added at any position of a table does not change what auto picks.

In `make test-all`, a copy of the project with an added CPU kernel also passes its tests.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import profiles
import pytest
import reference
import skips
from test_sanitizers import tool

from fashion_infer.system import compilers

ROOT = Path(__file__).resolve().parents[2]
CPU_PLACES = range(len(reference.own_kernels("cpu")) + 1)
GPU_PLACES = range(len(reference.own_kernels("gpu")) + 1)
LINE = '    {"extra", "a copy of another one", "", "float32", %s},\n'


def copied(tmp_path):
    """Copy the working tree, without build outputs and caches; return the copy's folder."""
    tree = tmp_path / "tree"
    kept = {ROOT: {".git", ".venv", "build", "site"}, ROOT / "fashion_infer": {"lib"}}

    def left_out(folder, names):
        return {name for name in names if name in kept.get(Path(folder), ()) or name == "__pycache__"}

    shutil.copytree(ROOT, tree, ignore=left_out, symlinks=True)
    return tree


def changed(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new), encoding="utf-8")


def put(table, place, line):
    """Insert a line into a table's source, before the line at position `place`."""
    text = table.read_text(encoding="utf-8")
    begin = text.index("kKernels[] = {\n") + len("kKernels[] = {\n")
    end = text.index("\n};", begin) + 1
    starts = [begin + match.start() for match in re.finditer(r'^    \{"', text[begin:end], re.MULTILINE)] + [end]
    table.write_text(text[: starts[place]] + line + text[starts[place] :], encoding="utf-8")


def add_for_the_cpu(conv, place):
    """Do steps 1 and 3 of the page for the CPU: write the file, its declaration and its line in the table."""
    cpu = conv / "cpu"
    (cpu / "extra.cpp").write_text((cpu / "naive.cpp").read_text(encoding="utf-8").replace("conv_naive", "conv_extra"))
    naive = "fops_status conv_naive(const fops_conv&, const void* x, const float* k, float* y, void*);\n"
    changed(cpu / "kernels.h", naive, naive + naive.replace("conv_naive", "conv_extra"))
    put(cpu / "table.cpp", place, LINE % "any, conv_extra")


def add_for_the_gpu(conv, place):
    """Do steps 1 and 3 of the page for a CUDA kernel of the ladder."""
    cuda, number = conv / "cuda", len(GPU_PLACES)
    source = (cuda / "02_register_accumulate.cu").read_text(encoding="utf-8").replace("register_accumulate", "extra")
    (cuda / f"{number}_extra.cu").write_text(source.replace("Step 2:", f"Step {number}:"), encoding="utf-8")
    changed(cuda / "kernels.h", "#undef FOPS_RUN", "FOPS_RUN(run_extra);\n\n#undef FOPS_RUN")
    put(cuda / "table.cu", place, LINE % "takes_any, run_extra")


def run(command, **options):
    """Run a command, and show its output when it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    assert done.returncode == 0, done.stdout
    return done.stdout


# ---- Which kernel auto picks. Only the table is compiled, with stand-ins for its kernels and predicates.

ASK_CPU = """
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include "base/isa.h"
#include "conv/cpu/kernels.h"
namespace fops {
Isa isa() { return Isa::generic; }
bool amx() { return getenv("AMX") != nullptr; }
#define STAND_IN(name) fops_status name(const fops_conv&, const void*, const float*, float*, void*) { return FOPS_OK; }
STAND_IN(conv_naive) STAND_IN(conv_extra)
#define OF_A_SET(set) namespace set { KERNELS MERGES }
#define KERNELS STAND_IN(conv_shifted) STAND_IN(conv_direct) STAND_IN(conv_broadcast) STAND_IN(conv_tiles)
#define MERGES bool direct_merges(const fops_conv& c) { return c.H == 224; }
FOPS_EACH_ISA(OF_A_SET)
}
int main() {
  for (int C : {1, 4, 8, 64, 512}) for (int M : {1, 4, 50, 256}) for (int K : {1, 3, 7}) for (int side : {7, 28, 224}) {
    const fops_conv c{1, C, side, side, M, K, FOPS_FLOAT32};
    puts(fops::cpu_kernels().choose(c)->name);
  }
}
"""
ASK_GPU = """
#include <cstdio>
#include <initializer_list>
#include "conv/cuda/course_layers.h"
#include "conv/cuda/kernels.h"
#include "conv/hopper/table.h"
namespace fops {
std::vector<Kernel> hopper::variant_kernels() { return {}; }
%s
}
int main() {
  for (int M = 1; M < 1 << %d; ++M) for (int K : {5, 9}) {
    const fops_conv c{1, 1, 28, 28, M, K, FOPS_FLOAT32};
    const fops::Kernel* chosen = fops::gpu_kernels().choose(c);
    puts(chosen ? chosen->name : "none");
  }
}
"""


def chosen_on_the_cpu(conv, folder):
    """Return the names of the kernels that auto picks for 180 shapes: first without AMX, then with it."""
    program = folder / "ask"
    program.with_suffix(".cpp").write_text(ASK_CPU)
    sources = [f"{program}.cpp", conv / "cpu" / "table.cpp"]
    ops = conv.parent
    run(["c++", "-std=c++17", "-O0", f"-I{ops}", f"-I{ops / 'include'}", *sources, "-o", program])
    return [run([program], env={**os.environ, **amx}).split() for amx in ({}, {"AMX": "1"})]


def chosen_on_the_gpu(conv, folder):
    """Return the name of the kernel that auto picks for each combination of results of the kernels' predicates.

    The predicates' stand-ins return one bit of M each.
    """
    text = (conv / "cuda" / "kernels.h").read_text(encoding="utf-8")
    text += "FOPS_RUN(run_tensor_core); bool takes_tensor_core(const fops_conv&);"  # declared in conv/hopper/table.h
    arguments = "const fops_conv&, const void*, const float*, float*, void*"
    stand_ins = [
        f"fops_status {name}({arguments}) {{ return FOPS_OK; }}" for name in re.findall(r"FOPS_RUN\((run_\w+)\);", text)
    ]
    predicates = re.findall(r"bool (takes_\w+)\(const fops_conv&\);", text)
    stand_ins += [
        f"bool {name}(const fops_conv& c) {{ return c.M >> {bit} & 1; }}" for bit, name in enumerate(predicates)
    ]
    (folder / "ask.cu").write_text(ASK_GPU % ("\n".join(stand_ins), len(predicates)))
    ops = conv.parent
    includes = [f"-I{ops}", f"-I{ops / 'include'}", "--expt-relaxed-constexpr"]
    sources = [folder / "ask.cu", conv / "cuda" / "table.cu"]
    run([compilers.find_nvcc(), "-std=c++17", "-O0", *includes, *sources, "-o", folder / "ask"])
    return run([folder / "ask"]).split()


def parts(tmp_path):
    """Copy the operator library's sources; return the copy's folder `conv`."""
    shutil.copytree(ROOT / "custom_ops", tmp_path / "ops")
    return tmp_path / "ops" / "conv"


@pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
def test_an_added_cpu_kernel_does_not_change_what_auto_picks(tmp_path):
    before = chosen_on_the_cpu(parts(tmp_path), tmp_path)
    assert {name for names in before for name in names} == {"shifted", "direct", "broadcast", "tiles"}
    for place in CPU_PLACES:
        (tmp_path / str(place)).mkdir()
        conv = parts(tmp_path / str(place))
        add_for_the_cpu(conv, place)
        assert chosen_on_the_cpu(conv, tmp_path) == before, place


@pytest.mark.slow
@skips.needs("nvcc")
def test_an_added_gpu_kernel_does_not_change_what_auto_picks(tmp_path):
    before = chosen_on_the_gpu(parts(tmp_path), tmp_path)
    assert set(before) >= {"few-products", "tensor-core", "register-tile", "implicit-gemm"}
    for place in profiles.drawn(GPU_PLACES, 1):
        (tmp_path / str(place)).mkdir()
        conv = parts(tmp_path / str(place))
        add_for_the_gpu(conv, place)
        assert chosen_on_the_gpu(conv, tmp_path) == before, place


# ---- Running test files of the copy.


def suite(tree, library, *files):
    """Run files of the copy's test suite with the copy's library; return the output."""
    options = {"FASHION_OPS_LIBRARY": str(library), "PYTHONPATH": str(tree), "HYPOTHESIS_PROFILE": "default"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files]
    said = run(command, cwd=str(tree), env={**os.environ, **options})
    assert " passed" in said and Path(library).exists()
    return said


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """One copy of the tree for all positions, whose library each test rebuilds."""
    return copied(tmp_path_factory.mktemp("added"))


@pytest.mark.slow
@pytest.mark.skipif(not profiles.pick(False, True), reason="builds the library: part of make test-all")
@pytest.mark.parametrize("place", CPU_PLACES)
def test_the_test_suite_passes_with_an_added_cpu_kernel(place, tree):
    cmake, ninja = tool("cmake"), tool("ninja")
    if not (cmake and ninja and shutil.which("c++")):
        pytest.skip("a C++ compiler, cmake or ninja is not installed")
    mxnet = Path(sysconfig.get_path("platlib")) / "mxnet"
    ops, build = tree / "custom_ops", tree.parent / "build"
    for name in ("table.cpp", "kernels.h"):
        shutil.copy(ROOT / "custom_ops" / "conv" / "cpu" / name, ops / "conv" / "cpu" / name)
    add_for_the_cpu(ops / "conv", place)
    run(
        [cmake, "-S", ops, "--preset", "cpu", "-B", build, f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DMXNET_DIR={mxnet}"],
        cwd=ops,
    )
    run([cmake, "--build", build])
    names = ["operator", "bound", "steady", "tiles", "bench", "docs", "cli", "completion", "submissions_kernels"]
    suite(tree, build / "libfashion_ops.so", *(f"tests/unit/test_{name}.py" for name in names))
    suite(tree, build / "libfashion_ops.so", "tests/pipeline/test_kernel_files.py")
