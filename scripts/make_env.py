"""Makes .venv with fashion-infer in it, editable, and the operator library built: what `make` does first.

Run by any Python 3.6 or later, with the standard library alone; what it cannot serve gets one sentence.
Nothing is done twice: the environment remembers what it was made from (.venv/fashion-infer.json), and of the three
steps below only those are done again whose part has changed. `fashion-infer doctor` shows what is remembered.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from env_plan import FROM_PYPI, MXNET_WHEELS, ROOT, has_driver, make_plan, reason

OLDEST, NEWEST = (3, 8), (3, 12)
NO_PYTHON = (
    "install one of those (Fedora: dnf install python3.12; anywhere: uv python install 3.12) and name it: "
    "`make PYTHON=/path/to/python3.12`"
)


def main():
    arguments = parse_arguments()
    venv = Path(arguments.venv)
    python = existing_python(venv, arguments.keep_to_this_python) or new_python(venv)

    record = venv / "fashion-infer.json"
    before = json.loads(record.read_text()) if record.exists() else {}
    wanted = make_plan(before, arguments.mxnet, arguments.extra, arguments.cuda)
    changed = [step for step in STEPS if wanted[step] != before.get(step)]
    if not (ROOT / "fashion_infer/lib/libfashion_ops.so").exists() and "library" not in changed:
        changed.append("library")
    done = {key: value for key, value in {**before, **wanted}.items() if key not in changed}
    if not changed:
        if done != before:
            record.write_text(json.dumps(done))
        return
    if "library" in changed:
        require_compiler()
    for step in filter(changed.__contains__, STEPS):
        record.write_text(json.dumps(done))  # broken off, this step is to be done again
        STEPS[step](python, venv, before, wanted)
        done[step] = wanted[step]
    record.write_text(json.dumps(done))
    say("ready")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("venv")
    parser.add_argument("--mxnet", choices=MXNET_WHEELS, help="which MXNet wheel; default: the present one, or cpu")
    parser.add_argument("--extra", action="append", default=[], help="an extra of setup.cfg")
    parser.add_argument("--cuda", action="store_true", help="build the CUDA part; fetch nvcc where there is none")
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
        other = next(filter(shutil.which, others), None)
        advice = f"try `make PYTHON={other}`" if other else NO_PYTHON
        why = "needs Python 3.8 to 3.12, for MXNet 1.9.1's dependencies exist for no other, and this is {}.{}: "
        stop(why.format(*sys.version_info[:2]) + advice)
    try:
        import ensurepip  # noqa: F401  (Debian splits it off, with the use of venv)
        import venv  # noqa: F401
    except ImportError:
        stop("this Python cannot make virtual environments (Debian: apt install python3-venv)")


def require_compiler():
    compiler = os.environ.get("CXX", "c++").split()[0]
    if not shutil.which(compiler):
        stop(f"no C++ compiler '{compiler}' for the operator library (Debian: apt install build-essential)")


def pip(python):
    return [python, "-m", "pip", "--disable-pip-version-check", "-q"]


def install_packages(python, venv, before, wanted):
    wheel = MXNET_WHEELS[wanted["mxnet"]]
    # The two MXNet wheels own the same folder: one goes before the other comes, once that is at hand.
    for other in set(MXNET_WHEELS.values()) - {wheel}:
        if list(venv.glob("lib/*/site-packages/{}-*.dist-info".format(other.replace("-", "_")))):
            say(f"putting {wheel} in the place of {other}")
            downloads = venv / "downloads"
            run(*pip(python), "download", "--no-deps", "-d", downloads, f"{wheel}==1.9.1")
            run(*pip(python), "uninstall", "-y", other)
            run(*pip(python), "install", "--no-deps", *downloads.glob("*.whl"))
            shutil.rmtree(str(downloads))
    new = [name for name in wanted["packages"] if name not in (before.get("packages") or ())]
    if new:
        say("installing " + ", ".join(re.split("[<>=;]", name)[0] for name in new))
    # Python compiles what it imports: of a tenth of the files, and not before the first answer.
    run(*pip(python), "install", "--no-compile", *wanted["packages"])


def build_library(python, venv, before, wanted):
    library = wanted["library"]
    say("building the operator library" + reason(before.get("library"), library))
    os.environ["FASHION_INFER_CUDA"] = "on" if library["nvcc"] else "off"
    if library["nvcc"] not in (None, FROM_PYPI):
        os.environ["CUDACXX"] = library["nvcc"]
    if library["nvcc"] and not library["archs"] and not has_driver():
        say("CUDA for every GPU takes minutes; FASHION_OPS_CUDA_ARCHS=80, for example, compiles for that one alone")
    # On its own, for pip would hide the compiler's progress and bury its errors.
    run(python, "setup.py", "-q", "build_ext", "--inplace")


def install_package(python, venv, before, wanted):
    # Against the MXNet of this environment, and with its CUDA compiler: hence no isolated build.
    run(*pip(python), "install", "--no-deps", "--no-build-isolation", "-e", ".")


# In this order. What each was done for is remembered under its name.
STEPS = {"packages": install_packages, "library": build_library, "package": install_package}

if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
