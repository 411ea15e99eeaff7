"""Creates .venv with an editable fashion-infer, and builds the operator library. `make` runs this first.

Any Python 3.6 or later runs this script with only the standard library. On an unusable Python it prints a one-line
message. It repeats nothing that is already done: .venv/fashion-infer.json records what was requested and what the
environment was made from. `fashion-infer doctor` shows that record.
"""

import argparse
import configparser
import hashlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 8)
MXNET_WHEELS = {"cpu": "mxnet", "cu112": "mxnet-cu112"}
MXNET = ROOT / "fashion_infer" / "_mxnet" / "requirement.txt"
# Variables that are set are recorded, so that a later call without them does not rebuild everything. A variable set to
# the empty string is forgotten.
SETTINGS = ("CXX", "CUDACXX", "FASHION_INFER_CUDA", "FASHION_OPS_CUDA_ARCHS")
PACKAGE_SOURCES = (MXNET, ROOT / "setup.cfg", ROOT / "pyproject.toml", ROOT / "fashion_infer" / "version.py")
LIBRARY_SOURCES = (ROOT / "custom_ops", ROOT / "setup.py", ROOT / "fashion_infer" / "version.py")
COMPILED = {".cpp", ".cu", ".h", ".cuh", ".inc", ".txt", ".cmake", ".map", ".py"}

compilers = runpy.run_path(str(ROOT / "fashion_infer" / "system" / "compilers.py"))


def main():
    arguments = parse_arguments()
    venv = Path(arguments.venv)
    python, version = existing_python(venv, arguments.keep_to_this_python) or new_python(venv)
    record = venv / "fashion-infer.json"
    before = recorded(record)
    wanted = plan(before, arguments)
    library = ROOT / "fashion_infer" / "lib" / "libfashion_ops.so"
    stale = [part for part in ("package", "library") if wanted[part] != before.get(part)]
    if not library.exists() and "library" not in stale:
        stale.append("library")
    if stale:
        require_compiler()
        record.write_text(json.dumps({"asked": wanted["asked"], **{k: before[k] for k in before if k not in stale}}))
        for name in SETTINGS:
            os.environ.pop(name, None)
        os.environ.update(
            wanted["library"]["settings"], FASHION_INFER_CUDA="on" if wanted["library"]["cuda"] else "off"
        )
        if "package" in stale:
            install_tools(python, venv, wanted["package"])
        if "library" in stale:
            build_library(python, wanted)
        if "package" in stale:
            install_package(python, version, wanted["package"]["extras"], before.get("package", {}).get("extras", ()))
    if stale or wanted != before:
        record.write_text(json.dumps(wanted))
    if stale:
        say("ready")


def recorded(path):
    """Return the plan of the last call; {} if there is none, or if another version of this script wrote it."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and all(isinstance(part, dict) for part in found.values()) else {}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("venv")
    parser.add_argument("--mxnet", choices=MXNET_WHEELS, help="which MXNet wheel; default: the present one, or cpu")
    parser.add_argument("--extra", action="append", default=[], help="an extra of setup.cfg")
    parser.add_argument("--cuda", action="store_true", help="build the CUDA part; fetch nvcc where there is none")
    parser.add_argument("--keep-to-this-python", action="store_true", help="refuse .venv of another version")
    return parser.parse_args()


def plan(before, arguments):
    """Return what the environment should be made from, according to this request and earlier ones."""
    earlier = before.get("asked", {})
    settings = dict(earlier.get("settings", {}))
    settings.update((name, os.environ[name]) for name in SETTINGS if name in os.environ)
    if arguments.cuda and os.environ.get("FASHION_INFER_CUDA") != "off":
        settings["FASHION_INFER_CUDA"] = "on"
    settings = {name: value for name, value in settings.items() if value}
    cuda = settings.get("FASHION_INFER_CUDA", "auto")
    if cuda not in ("auto", "on", "off"):
        stop("FASHION_INFER_CUDA must be on, off or auto")
    mxnet = arguments.mxnet or earlier.get("mxnet", "cpu")
    extras = {*earlier.get("extras", ()), *arguments.extra}
    nvcc = settings.get("CUDACXX") or compilers["find_nvcc"](sites=())
    # A library that was built with CUDA is rebuilt with it, even on a machine without a GPU.
    built = before.get("library", {}).get("cuda", False)
    with_cuda = cuda == "on" or (cuda == "auto" and bool(built or (nvcc and compilers["has_driver"]())))
    needed = {"cu112"} if mxnet == "cu112" else set()
    if with_cuda and not nvcc:
        needed.add("gpu")  # nvcc from PyPI
    return {
        "asked": {"mxnet": mxnet, "extras": sorted(extras), "settings": settings},
        "package": {
            "mxnet": mxnet,
            "extras": sorted(extras | needed),
            "place": str(ROOT),
            "sources": digest(PACKAGE_SOURCES),
        },
        "library": {
            "cuda": with_cuda,
            "settings": {name: settings[name] for name in settings if with_cuda or name == "CXX"},
            "place": str(ROOT),
            "sources": digest(LIBRARY_SOURCES),
        },
    }


def digest(sources):
    """Return a digest of files, and of the source files in folders."""
    found = hashlib.sha256()
    for source in sources:
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        for file in files:
            # custom_ops/submission is compiled with kernel files, not into the library.
            if (file.suffix in COMPILED and "submission" not in file.parts) or file == source:
                found.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


def say(text):
    print(f"fashion-infer: {text}", file=sys.stderr, flush=True)


def stop(text):
    say(text)
    sys.exit(1)


def run(*command):
    """Run a command with its output on stderr; exit if it fails."""
    if subprocess.run([str(word) for word in command], cwd=str(ROOT), stdout=sys.stderr).returncode:
        stop("setting up failed; the reason is above. Run the same command again once it is fixed")


def existing_python(venv, keep_to_this_python):
    """Return the environment's Python and its version if it works, else None."""
    python = venv / "bin" / "python"
    probe = "import pip, sys; print(*sys.version_info[:2])"
    try:
        found = subprocess.run([str(python), "-c", probe], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return None
    if found.returncode:
        return None
    version = tuple(map(int, found.stdout.split()))
    if keep_to_this_python and version != sys.version_info[:2]:
        versions = (*version, *sys.version_info[:2])
        stop("{} holds Python {}.{}, not {}.{}: run `make clean` first".format(venv, *versions))
    return python, version


def new_python(venv):
    """Create the environment. On failure, remove what was created."""
    if sys.version_info[:2] < OLDEST:
        stop(
            "needs Python 3.8 or newer, and this is {}.{}: try `make PYTHON=/path/to/python3`".format(*sys.version_info)
        )
    try:
        import ensurepip  # noqa: F401  (Debian splits it off, with the use of venv)
        import venv as _  # noqa: F401
    except ImportError:
        stop("this Python cannot make virtual environments (Debian: apt install python3-venv)")
    require_compiler()
    if venv.is_symlink() or venv.is_file():
        stop(f"{venv} is in the way: it is not an environment made by this script")
    shutil.rmtree(str(venv), ignore_errors=True)
    say("making {} with Python {}.{}".format(venv, *sys.version_info))
    try:
        run(sys.executable, "-m", "venv", venv.resolve())
    except BaseException:  # including Ctrl-C
        shutil.rmtree(str(venv), ignore_errors=True)
        raise
    return venv / "bin" / "python", sys.version_info[:2]


def require_compiler():
    compiler = os.environ.get("CXX", "c++").split()[0]
    if not shutil.which(compiler):
        stop("no C++ compiler '{}' for the operator library ({})".format(compiler, compilers["CXX_PACKAGES"]))


def pip(python, *words):
    # Skip pip's compilation of bytecode: Python compiles the files that it imports, a tenth of them. MXNet works with
    # NumPy 2.
    quick = ["--no-compile", "--no-warn-conflicts"] if words[0] == "install" else []
    run(python, "-m", "pip", "--disable-pip-version-check", "-q", words[0], *quick, *words[1:])


def install_tools(python, venv, package):
    """Install MXNet and the build tools of the operator library."""
    say("installing MXNet and build tools")
    wheel = MXNET_WHEELS[package["mxnet"]]
    for other in set(MXNET_WHEELS.values()) - {wheel}:  # both wheels install into the same folder
        if list(venv.glob("lib/*/site-packages/{}-*.dist-info".format(other.replace("-", "_")))):
            pip(python, "uninstall", "-y", other)
    # Install MXNet without its dependencies: it declares NumPy below 2, but also works with NumPy 2.
    pip(python, "install", "--no-deps", *(["-r", MXNET] if wheel == "mxnet" else [f"{wheel}==1.9.1"]))
    build_system = re.search(r"^requires = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)
    tools = re.findall(r'"(.+?)"', build_system.group(1))
    pip(python, "install", *tools, *(requirements("gpu") if "gpu" in package["extras"] else []))


def requirements(extra):
    config = configparser.ConfigParser()
    config.read(str(ROOT / "setup.cfg"))
    if extra not in config["options.extras_require"]:
        stop(f"there is no extra {extra}: {', '.join(config['options.extras_require'])}")
    return config["options.extras_require"][extra].split("\n")[1:]


def build_library(python, wanted):
    cuda = wanted["library"]["cuda"]
    say("building the operator library, {} CUDA".format("with" if cuda else "without"))
    if not cuda and compilers["find_nvcc"](sites=()) and "FASHION_INFER_CUDA" not in wanted["asked"]["settings"]:
        say("there is a CUDA compiler, but no NVIDIA driver: `make setup BACKEND=gpu` builds CUDA anyway")
    # Build without pip, which hides the compiler's progress and wraps its errors.
    run(python, "setup.py", "-q", "build_ext", "--inplace")


def install_package(python, version, extras, before):
    new = [extra for extra in extras if extra not in before]
    say("installing fashion-infer" + (" with " + ", ".join(new) if new else ""))
    left_out = sorted({name for extra in new for name in requirements(extra) if not has_release(name, version)})
    if left_out:
        names = ", ".join(re.split(r"[^\w-]", name)[0] for name in left_out)
        say("left out, because they need a newer Python: " + names)
    # Build without isolation: the build needs the MXNet and the CUDA compiler of this environment.
    pip(python, "install", "--no-build-isolation", "-e", ".[{}]".format(",".join(extras)) if extras else ".")


def has_release(requirement, version):
    oldest = re.search(r'python_version *>= *"3\.(\d+)"', requirement)
    return not oldest or version >= (3, int(oldest.group(1)))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
