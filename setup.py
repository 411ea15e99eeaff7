"""Builds the operator library with CMake into the package. Everything else is declared in setup.cfg.

FASHION_INFER_CUDA=auto|on|off and FASHION_OPS_CUDA_ARCHS choose what is built: see custom_ops/CMakeLists.txt. `auto`
builds with CUDA if this machine has an NVIDIA driver and a CUDA compiler. scripts/make_wheel.py sets
FASHION_INFER_BUILD, the folder to build in, and CMAKE_ARGS, additional arguments for CMake.
"""

import configparser
import fcntl
import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
compilers = runpy.run_path(str(ROOT / "fashion_infer" / "system" / "compilers.py"))
find_nvcc = compilers["find_nvcc"]


def need(found, what):
    if not found:
        sys.exit("fashion-infer: the operator library cannot be built: " + what)
    return found


def tool(name):
    """Return the path of a program from this Python environment's scripts, else from PATH; None if there is none."""
    return shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)


def mxnet_folder(fetched):
    """Return the folder of MXNet's package, which has its headers. If it is not installed, pip puts it in `fetched`."""
    found = importlib.util.find_spec("mxnet")
    if found and found.submodule_search_locations:
        return found.submodule_search_locations[0]
    if not (fetched / "mxnet").is_dir():
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
        requirement = ROOT / "fashion_infer" / "_mxnet" / "requirement.txt"
        done = subprocess.run([*pip, "--target", str(fetched), "-r", str(requirement)])
        need(not done.returncode, "pip cannot get MXNet, whose headers it needs; the reason is above")
    return fetched / "mxnet"


class BuildOps(build_ext):
    """Builds libfashion_ops.so. It is no extension module, so its name has no suffix for a version of Python."""

    def get_ext_filename(self, fullname):
        return fullname.replace(".", os.sep) + ".so"

    def build_extension(self, ext):
        compiler = os.environ.get("CXX", "c++").split()[0]
        need(shutil.which(compiler), f"no C++ compiler '{compiler}' ({compilers['CXX_PACKAGES']})")
        cmake = need(tool("cmake"), "no cmake (pip install cmake)")
        ninja = need(tool("ninja"), "no ninja (pip install ninja)")
        settings = {
            "CMAKE_MAKE_PROGRAM": ninja,
            "FOPS_REQUIRE_MXNET": "ON",
            "FOPS_VERSION": self.distribution.get_version(),
        }
        cuda = os.environ.get("FASHION_INFER_CUDA") or "auto"
        if cuda == "auto" and not compilers["has_driver"]():
            cuda = "off"  # without a driver, this machine cannot run the CUDA kernels, which take minutes to compile
        settings["FASHION_INFER_CUDA"] = cuda
        if cuda != "off" and find_nvcc():
            settings["CMAKE_CUDA_COMPILER"] = find_nvcc()
        build = Path(os.environ.get("FASHION_INFER_BUILD") or ROOT / "build" / "cmake")
        build.mkdir(parents=True, exist_ok=True)
        settings["MXNET_DIR"] = mxnet_folder(build.parent / "mxnet")
        with open(build / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Keep compiled objects, but delete CMake's cache, which may have paths of another environment's tools.
            for stale in [build / "CMakeCache.txt", *build.glob("CMakeFiles/[0-9]*")]:
                shutil.rmtree(stale) if stale.is_dir() else stale.unlink(missing_ok=True)
            defines = [f"-D{name}={value}" for name, value in settings.items()]
            defines += os.environ.get("CMAKE_ARGS", "").split()
            places = ["-S", ROOT / "custom_ops", "-B", build]
            self.cmake([cmake, "--log-level=NOTICE", "-G", "Ninja", *places, *defines])
            self.cmake([cmake, "--build", build])
            target = Path(self.get_ext_fullpath(ext.name))
            target.parent.mkdir(parents=True, exist_ok=True)
            self.copy_file(str(build / target.name), str(target))

    @staticmethod
    def cmake(command):
        need(not subprocess.run(command).returncode, "the reason is above")


class PlatformWheel(bdist_wheel):
    """Makes a wheel with the tag py3-none-PLATFORM, because the library works with every version of Python."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


def build_requirements():
    """Return the packages of a CUDA compiler if FASHION_INFER_CUDA=on and there is none; else return an empty list."""
    if os.environ.get("FASHION_INFER_CUDA") != "on" or find_nvcc():
        return []
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config["options.extras_require"]["gpu"].split()


setup(
    ext_modules=[Extension("fashion_infer.lib.libfashion_ops", sources=[])],
    cmdclass={"build_ext": BuildOps, "bdist_wheel": PlatformWheel},
    setup_requires=build_requirements(),
)
