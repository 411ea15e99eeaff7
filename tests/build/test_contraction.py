"""An image's result does not depend on its batch, whichever multiply-adds the compiler fuses.

Some versions of GCC fuse the multiply-adds of one loop but not of another. The library once gave an image different
results in batches of different sizes for this reason.
"""

import os
import platform
import subprocess
import sys

import profiles
import pytest
from test_sanitizers import OPS, tool

all_only = pytest.mark.skipif(not profiles.pick(False, True), reason="builds the library: part of make test-all")
pytestmark = [all_only, pytest.mark.slow]


def test_steady_if_the_compiler_avoids_chains_of_fused_multiply_adds(tmp_path):
    cmake, ninja = tool("cmake"), tool("ninja")
    if platform.machine() != "x86_64" or not (cmake and ninja):
        pytest.skip("cmake or ninja is not installed, or this is no x86-64")
    flags = "-DCMAKE_CXX_FLAGS=--param=avoid-fma-max-bits=512"
    configure = [cmake, "-S", OPS, "--preset", "cpu", "-B", tmp_path, f"-DCMAKE_MAKE_PROGRAM={ninja}", flags]
    for command in (configure, [cmake, "--build", tmp_path]):
        done = subprocess.run(command, cwd=OPS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if "avoid-fma-max-bits" in done.stdout and done.returncode:
            pytest.skip("this compiler does not know the option")
        assert done.returncode == 0, done.stdout
    options = {"FASHION_OPS_LIBRARY": str(tmp_path / "libfashion_ops.so"), "HYPOTHESIS_PROFILE": "default"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/unit/test_steady.py"],
        env={**os.environ, **options},
        cwd=str(OPS.parent),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
