"""Builds of the library: under GCC's sanitizers, without fused multiply-adds, and for the oldest GPU of the wheels."""

import contextlib
import fcntl
import hashlib
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import profiles
import pytest
import skips

from fashion_infer.system import compilers

OPS = Path(__file__).resolve().parents[2] / "custom_ops"
pytestmark = pytest.mark.slow


def tool(name):
    """Return the path of a program, from this environment (even if it is not on PATH) or from the system."""
    return shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)


def instruction_sets():
    """Return the instruction sets to test: one drawn at random or, in `make test-all`, all that this processor has."""
    found = ["generic"]
    if platform.machine() in ("x86_64", "AMD64"):
        flags = Path("/proc/cpuinfo").read_text().split()
        found += [isa for isa, flag in (("avx2", "avx2"), ("avx512", "avx512vl")) if flag in flags]
    elif platform.machine() in ("aarch64", "arm64"):
        found.append("neon")
    return profiles.pick([random.choice(found)], found)


@contextlib.contextmanager
def locked_build_folder(preset):
    """Lock and yield a folder of the checkout for builds with a preset, so that one build runs at a time.

    The folder is kept, so that ninja recompiles only what has changed by the next run. Each compiler has its own
    folder.
    """
    if not shutil.which("c++"):
        pytest.skip("a C++ compiler is not installed")
    version = subprocess.run(["c++", "--version"], capture_output=True, check=True).stdout
    folder = OPS.parent / "build" / "sanitizers" / f"{preset}-{hashlib.sha256(version).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def build(preset, folder, isas):
    cmake, ninja = tool("cmake"), tool("ninja")
    if not (cmake and ninja):
        pytest.skip("cmake or ninja is not installed")
    configure = [cmake, "-S", OPS, "--preset", preset, "-B", folder, f"-DCMAKE_MAKE_PROGRAM={ninja}", "-DMXNET_DIR=",
                 f"-DFOPS_SANITIZE_ISAS={';'.join(isas)}"]  # fmt: skip
    for command in (configure, [cmake, "--build", folder]):
        done = subprocess.run(command, cwd=OPS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if "cannot find" in done.stdout and "san" in done.stdout:  # libtsan or libasan is not installed
            pytest.skip("this compiler has no sanitizers")
        assert done.returncode == 0, done.stdout
    return folder / "drive_networks"


@pytest.mark.parametrize("preset", profiles.drawn(["sanitize-thread", "sanitize-address"], 1))
def test_networks_under_sanitizers(preset):
    with locked_build_folder(preset) as folder:
        build_and_run(preset, folder)


def build_and_run(preset, folder):
    isas = instruction_sets()
    program = build(preset, folder, isas)
    for isa in isas:
        done = drive([str(program)], isa)
        if "unexpected memory mapping" in done.stderr:  # older libtsan fails with some address randomisation
            done = drive(["setarch", "-R", str(program)], isa)
            if "unexpected memory mapping" in done.stderr or "setarch" in done.stderr:
                pytest.skip("ThreadSanitizer cannot start on this kernel")
        assert done.returncode == 0, done.stdout + done.stderr
    if preset == "sanitize-address":
        run_damaged(program.with_name("drive_damaged"), isas)


def run_damaged(program, isas):
    """Run damaged networks and convolutions, with a new seed in each run. A failure prints the seed, to repeat it."""
    seed, begun, count = random.randrange(2**31), time.monotonic(), profiles.pick(150, 450)
    while True:
        for isa in isas:
            done = drive([str(program), str(seed), str(count)], isa)
            assert done.returncode == 0, f"{program.name} {seed} {count}, {isa}\n{done.stdout}{done.stderr}"
            seed += count
        if time.monotonic() - begun > profiles.pick(0, 120):
            return


def drive(command, isa):
    options = {"FASHION_OPS_ISA": isa, "TSAN_OPTIONS": "halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=1"}
    options["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"  # by default, UBSan reports an error and continues
    environment = {**os.environ, **options}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.skipif(not profiles.pick(False, True), reason="builds the library: part of make test-all")
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


FILES = sorted(path for path in OPS.rglob("*.cu") if "submission" not in path.relative_to(OPS).parts)


@skips.needs("nvcc")
@pytest.mark.parametrize("file", profiles.drawn(FILES, 1), ids=lambda file: str(file.relative_to(OPS)))
def test_cuda_code_compiles_for_the_oldest_gpu(file, of_scripts):
    oldest = re.match(r"\d+", of_scripts("make_wheel").CUDA_ARCHS)[0]
    # Without optimisation and assembly, the compiler still reports features that the oldest GPU lacks, but sooner.
    words = [f"-arch=compute_{oldest}", "-ptx", "-Xcicc", "-O0", "-std=c++17", "--expt-relaxed-constexpr"]
    command = [compilers.find_nvcc(), *words, f"-I{OPS}", f"-I{OPS}/include", "-o", "/dev/null", str(file)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
