"""The steps of docs/adding-a-kernel.md work for a CPU kernel, at each position of the table."""

import json
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
from test_sanitizers import OPS, tool

from fashion_infer.checkpoints import editions
from fashion_infer.library import kernels

all_only = pytest.mark.skipif(not profiles.pick(False, True), reason="builds the library: part of make test-all")
pytestmark = [all_only, pytest.mark.slow]
CHOSEN = """
import sys
from fashion_infer.library import kernels
print([kernels.chosen_kernel((n, c, s, s), (m, c, k, k)) for n, c, s, m, k in eval(sys.argv[1])])
"""


def put(path, pattern, text):
    """Insert a text before the first match of a pattern."""
    content = path.read_text(encoding="utf-8")
    at = re.search(pattern, content, re.MULTILINE).start()
    path.write_text(content[:at] + text + content[at:], encoding="utf-8")


def run(command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("before", [*reference.own_kernels("cpu"), None])
def test_an_added_kernel_runs_and_does_not_change_what_auto_picks(before, tmp_path):
    cmake, ninja = tool("cmake"), tool("ninja")
    if not (cmake and ninja and shutil.which("c++")):
        pytest.skip("a C++ compiler, cmake or ninja is not installed")
    ops, build = tmp_path / "ops", tmp_path / "build"
    shutil.copytree(OPS, ops)
    cpu = ops / "conv" / "cpu"
    (cpu / "extra.cpp").write_text((cpu / "naive.cpp").read_text(encoding="utf-8").replace("conv_naive", "conv_extra"))
    parameters = "const fops_conv&, const void* x, const float* k, float* y, void*"
    put(cpu / "kernels.h", "^fops_status conv_naive", f"fops_status conv_extra({parameters});\n")
    line = '    {"extra", "a copy of another one", "", "float32", any, conv_extra},\n'
    put(cpu / "table.cpp", f'^    {{"{before}"' if before else r"^};", line)
    mxnet = Path(sysconfig.get_path("platlib")) / "mxnet"
    run(
        [cmake, "-S", ops, "--preset", "cpu", "-B", build, f"-DCMAKE_MAKE_PROGRAM={ninja}", f"-DMXNET_DIR={mxnet}"],
        cwd=ops,
    )
    run([cmake, "--build", build])
    environment = {**os.environ, "FASHION_OPS_LIBRARY": str(build / "libfashion_ops.so")}
    words = ["run", "--n", 500, "--data", "synthetic", "--backend", "cpu", "--json", "--kernel"]
    runs = [
        json.loads(run([sys.executable, "-m", "fashion_infer", *words, name], env=environment))
        for name in ("extra", "naive")
    ]
    assert runs[0]["layers"][0]["kernel"] == "extra"
    assert runs[0]["predictions_sha256"] == runs[1]["predictions_sha256"]
    shapes = [
        (n, *shape)
        for one in editions.EDITIONS.values()
        for shape in editions.convolution_shapes(one)
        for n in (1, 1000)
    ]
    chosen = [kernels.chosen_kernel((n, c, s, s), (m, c, k, k)) for n, c, s, m, k in shapes]
    assert run([sys.executable, "-c", CHOSEN, shapes], env=environment).strip() == str(chosen)
