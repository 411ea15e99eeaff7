"""A library that CMake builds in the project's tree without setup.py gets the package's version."""

import subprocess

import pytest
from test_sanitizers import OPS, tool

from fashion_infer import __version__


def test_a_build_without_setup_py_has_the_packages_version(tmp_path):
    cmake, ninja = tool("cmake"), tool("ninja")
    if not (cmake and ninja):
        pytest.skip("cmake or ninja is not installed")
    subprocess.run(
        [cmake, "-S", OPS, "--preset", "cpu", "-B", tmp_path, f"-DCMAKE_MAKE_PROGRAM={ninja}"],
        cwd=OPS,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    assert f'FOPS_VERSION=\\"{__version__}\\"' in (tmp_path / "build.ninja").read_text()
