"""Code of the GPU part, compiled as plain C++: check_choices.cpp finds no wrong choice or quotient."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

OPS = Path(__file__).resolve().parents[2] / "custom_ops"


@pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
def test_choices_and_quotients(tmp_path):
    sources = [Path(__file__).with_name("check_choices.cpp"), OPS / "conv" / "hopper" / "choose.cpp"]
    command = ["c++", "-std=c++17", "-O1", f"-I{OPS}", f"-I{OPS / 'include'}", *sources, "-o", tmp_path / "check"]
    subprocess.run(command, check=True)
    seed = random.randrange(2**31)
    ran = subprocess.run([tmp_path / "check", str(seed)], capture_output=True, text=True)
    assert ran.returncode == 0, f"seed {seed}: {ran.stdout}"
