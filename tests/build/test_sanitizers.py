"""The CPU part of the library under GCC's sanitizers: built with them into a small program, which drives networks."""

import os
import subprocess
from pathlib import Path

import pytest

OPS = Path(__file__).resolve().parents[2] / "custom_ops"
SIMD = sorted([*OPS.glob("cpu/*_simd.cpp"), *OPS.glob("fused/*_simd.cpp")])
PLAIN = sorted(
    source for room in ("core", "cpu", "fused") for source in OPS.glob(f"{room}/*.cpp") if source not in SIMD
)
SETS = {"generic": [], "avx2": ["-mavx2", "-mfma"], "avx512": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"]}


def compile_all(folder, sanitizer):
    """The test program with every source of the library's CPU part, under one sanitizer."""
    flags = ["-std=gnu++17", "-O1", "-g", f"-fsanitize={sanitizer}", "-fno-omit-frame-pointer"]
    flags += [f"-I{OPS / room}" for room in ("include", "core", "cpu", "fused")]
    jobs, objects = [], []
    sources = [(source, "", []) for source in [*PLAIN, Path(__file__).with_name("drive_networks.cpp")]]
    sources += [(source, isa, [f"-DFOPS_ISA={isa}", *options]) for source in SIMD for isa, options in SETS.items()]
    for source, isa, options in sources:
        target = folder / f"{source.stem}{isa}.o"
        objects.append(str(target))
        jobs.append(["g++", *flags, *options, "-c", str(source), "-o", str(target)])
    for job in jobs:
        subprocess.run(job, check=True, capture_output=True, text=True)
    program = folder / "drive"
    link = ["g++", *flags, *objects, "-o", str(program), "-lpthread"]
    subprocess.run(link, check=True, capture_output=True, text=True)
    return program


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_networks_under_sanitizers(sanitizer, tmp_path):
    try:
        program = compile_all(tmp_path, sanitizer)
    except FileNotFoundError:
        pytest.skip("g++ is not installed")
    except subprocess.CalledProcessError as error:
        if "cannot find" in error.stderr:  # the linker, of libtsan or libasan
            pytest.skip("this g++ has no sanitizers")
        raise
    for isa in SETS:
        done = drive([str(program)], isa)
        if "unexpected memory mapping" in done.stderr:  # older libtsan cannot start where addresses are very random
            done = drive(["setarch", "-R", str(program)], isa)
            if "unexpected memory mapping" in done.stderr or "setarch" in done.stderr:
                pytest.skip("ThreadSanitizer cannot start on this kernel")
        assert done.returncode == 0, done.stdout + done.stderr


def drive(command, isa):
    """Run the program with one instruction set."""
    options = {"FASHION_OPS_ISA": isa, "TSAN_OPTIONS": "halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=1"}
    environment = {**os.environ, **options}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
