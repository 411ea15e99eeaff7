"""Makes .venv with fashion-infer in it, editable, and the operator library built: what `make` does first.

Run by any Python 3.6 or later, with the standard library alone; what it cannot serve gets one sentence.
Nothing is done twice: the environment remembers what it was made from (.venv/fashion-infer.json).
"""

import argparse
import ast
import configparser
import ctypes
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
OLDEST, NEWEST = (3, 8), (3, 12)
MXNET_WHEELS = {"cpu": "mxnet", "cu112": "mxnet-cu112"}
# A change of any of these makes the package be installed, and the library built, again.
SOURCES = ("setup.cfg", "setup.py", "pyproject.toml", "custom_ops")
SETTINGS = ("CXX", "CUDACXX", "FASHION_INFER_CUDA", "FASHION_OPS_CUDA_ARCHS")


def main():
    arguments = parse_arguments()
    venv = Path(arguments.venv)
    python = existing_python(venv, arguments.keep_to_this_python) or new_python(venv)

    record = venv / "fashion-infer.json"
    before = json.loads(record.read_text()) if record.exists() else {}
    mxnet = arguments.mxnet or before.get("mxnet", "cpu")
    # What was once asked for stays, or `make test` would undo what `make run BACKEND=gpu` did.
    extras = {*before.get("extras", ()), *arguments.extra} - {"cu112"}
    if mxnet == "cu112":
        extras.add("cu112")
    if arguments.cuda_compiler and has_driver() and not find_nvcc():
        extras.add("gpu")
    wanted = {"mxnet": mxnet, "extras": sorted(extras), "sources": fingerprint()}
    if wanted == before and (ROOT / "fashion_infer/lib/libfashion_ops.so").exists():
        return
    require_compiler()
    record.write_text(json.dumps({**before, "sources": None}))  # broken off, this is to be done again
    install(python, venv, mxnet, extras)
    record.write_text(json.dumps(wanted))
    say("ready")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("venv")
    parser.add_argument("--mxnet", choices=MXNET_WHEELS, help="which MXNet wheel; default: the present one, or cpu")
    parser.add_argument("--extra", action="append", default=[], help="an extra of setup.cfg")
    parser.add_argument("--cuda-compiler", action="store_true", help="fetch nvcc for a driver that lacks it")
    parser.add_argument("--keep-to-this-python", action="store_true", help="refuse .venv of another version")
    return parser.parse_args()


def say(text):
    print(f"fashion-infer: {text}", file=sys.stderr, flush=True)


def stop(text):
    say(text)
    sys.exit(1)


def run(*command):
    """Run a command with all its output on stderr; end here when it fails, for it has said why."""
    if subprocess.run([str(word) for word in command], cwd=str(ROOT), stdout=sys.stderr).returncode:
        stop("setting up failed; the reason stands above. Run the same command again once it is mended")


def existing_python(venv, keep_to_this_python):
    """The environment's Python when it is whole, else None."""
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
    return python


def new_python(venv):
    """Make the environment, or leave nothing behind."""
    require_supported_python()
    require_compiler()
    if venv.is_symlink() or venv.is_file():
        stop(f"{venv} is in the way: it is not an environment that was made here")
    shutil.rmtree(str(venv), ignore_errors=True)
    say(f"making {venv} with Python {sys.version_info[0]}.{sys.version_info[1]}")
    try:
        run(sys.executable, "-m", "venv", venv.resolve())
    except BaseException:  # Ctrl-C as well
        shutil.rmtree(str(venv), ignore_errors=True)
        raise
    return venv / "bin" / "python"


def require_supported_python():
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        others = (f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1))
        other = next(filter(shutil.which, others), "/path/to/python3.11")
        stop(
            "needs Python 3.8 to 3.12, for MXNet 1.9.1's dependencies exist for no other, and this is "
            "{}.{}: try `make PYTHON={}`".format(*sys.version_info[:2], other)
        )
    try:
        import ensurepip  # noqa: F401  (Debian splits it off, with the use of venv)
        import venv  # noqa: F401
    except ImportError:
        stop("this Python cannot make virtual environments (Debian: apt install python3-venv)")


def require_compiler():
    compiler = os.environ.get("CXX", "c++").split()[0]
    if not shutil.which(compiler):
        stop(f"no C++ compiler '{compiler}' for the operator library (Debian: apt install build-essential)")


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def find_nvcc():
    """The machine's CUDA compiler. Wheels of the Python that runs this do not count: the environment has its own."""
    return runpy.run_path(str(ROOT / "fashion_infer" / "compilers.py"))["find_nvcc"](sites=())


def fingerprint():
    """A digest of all that decides what an installation holds."""
    digest = hashlib.sha256()
    for source in SOURCES:
        path = ROOT / source
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes() + b"\0")
    digest.update(repr([os.environ.get(name) for name in SETTINGS] + [find_nvcc(), str(ROOT)]).encode())
    return digest.hexdigest()


def install(python, venv, mxnet, extras):
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-q"]
    wheel = MXNET_WHEELS[mxnet]
    # The two MXNet wheels own the same folder: one goes before the other comes, once that is at hand.
    for other in set(MXNET_WHEELS.values()) - {wheel}:
        if list(venv.glob("lib/*/site-packages/{}-*.dist-info".format(other.replace("-", "_")))):
            say(f"putting {wheel} in the place of {other}")
            downloads = venv / "downloads"
            run(*pip, "download", "--no-deps", "-d", downloads, f"{wheel}==1.9.1")
            run(*pip, "uninstall", "-y", other)
            run(*pip, "install", "--no-deps", *downloads.glob("*.whl"))
            shutil.rmtree(str(downloads))
    packages = requirements(wheel, extras)
    names = ", ".join(re.split("[<>=;]", name)[0] for name in packages)
    say(f"installing {names} (the first time takes minutes)")
    run(*pip, "install", *packages)
    say("building the operator library")
    # On its own first, for pip would hide the compiler's progress and bury its errors.
    run(python, "setup.py", "-q", "build_ext", "--inplace")
    # Against the MXNet of this environment, and with its CUDA compiler: hence no isolated build.
    run(*pip, "install", "--no-deps", "--no-build-isolation", "-e", ".")


def requirements(mxnet_wheel, extras):
    """What setup.cfg and pyproject.toml ask for, with the chosen wheel of MXNet."""
    config = configparser.ConfigParser()
    config.read(str(ROOT / "setup.cfg"))
    lists = [config["options"]["install_requires"]]
    lists += [config["options.extras_require"][extra] for extra in sorted(extras)]
    names = [line.strip() for text in lists for line in text.splitlines() if line.strip()]
    build_system = (ROOT / "pyproject.toml").read_text()
    names += ast.literal_eval(re.search(r"^requires = (\[.*?^\])", build_system, re.DOTALL | re.MULTILINE).group(1))
    return [f"{mxnet_wheel}==1.9.1"] + [name for name in names if not name.startswith("mxnet=")]


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
