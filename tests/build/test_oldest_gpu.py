"""The CUDA code compiles for the oldest GPU that a wheel supports. Development and CI builds are for newer GPUs."""

import re
import subprocess
from pathlib import Path

import profiles
import pytest
import skips

from fashion_infer.system import compilers

OPS = Path(__file__).resolve().parents[2] / "custom_ops"
FILES = sorted(path for path in OPS.rglob("*.cu") if "submission" not in path.relative_to(OPS).parts)


@pytest.mark.slow
@skips.needs("nvcc")
@pytest.mark.parametrize("file", profiles.drawn(FILES, 4), ids=lambda file: str(file.relative_to(OPS)))
def test_compiles(file, of_scripts):
    oldest = re.match(r"\d+", of_scripts("make_wheel").CUDA_ARCHS)[0]
    # Without optimisation and assembly, the compiler still reports features that the oldest GPU lacks, but sooner.
    words = [f"-arch=compute_{oldest}", "-ptx", "-Xcicc", "-O0", "-std=c++17", "--expt-relaxed-constexpr"]
    command = [compilers.find_nvcc(), *words, f"-I{OPS}", f"-I{OPS}/include", "-o", "/dev/null", str(file)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
