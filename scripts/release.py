"""Checks a release, builds and tries its wheels, and prints the tag that it would create; --tag creates it.

Nothing is uploaded: the files to publish are in `dist/`.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tag", action="store_true", help="tag this commit if all checks pass")
    parser.add_argument("--no-cuda", action="store_true", help="try the steps with CPU-only wheels; no tag")
    arguments = parser.parse_args()
    wrong = problems(ROOT)
    for line in wrong:
        print(f"not in order: {line}", file=sys.stderr)
    if wrong and arguments.tag:
        sys.exit(1)
    wheels = build(arguments.no_cuda)
    check_metadata(wheels)
    check(next(wheel for wheel in wheels if "x86_64" in wheel.name))
    if wrong or arguments.no_cuda or not arguments.tag:
        print(f"dry run: no tag v{version()} was made (make release ARGS=--tag)")
        sys.exit(1 if wrong else 0)
    subprocess.run(["git", "tag", "-a", f"v{version()}", "-m", f"fashion-infer {version()}"], check=True, cwd=str(ROOT))
    print(f"tagged v{version()}; publish dist/ and push the tag")


def problems(root):
    """Return the problems that prevent a release, one line each."""
    number = version()
    lines = []
    if git(root, "status", "--porcelain"):
        lines.append("there are changes that are not committed")
    if git(root, "tag", "--list", f"v{number}"):
        lines.append(f"v{number} is tagged already: raise the version in fashion_infer/version.py")
    if f"\nversion: {number}\n" not in (root / "CITATION.cff").read_text():
        lines.append(f"CITATION.cff is not at version {number}")
    if not re.search(
        rf"^## {re.escape(number)}, \d{{4}}-\d\d-\d\d$", (root / "CHANGELOG.md").read_text(), re.MULTILINE
    ):
        lines.append(f"CHANGELOG.md has no dated section for {number}: '## {number}, YEAR-MONTH-DAY'")
    return lines


def version():
    text = (ROOT / "fashion_infer" / "version.py").read_text()
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE).group(1)


def git(root, *words):
    return subprocess.run(["git", *words], check=True, cwd=str(root), stdout=subprocess.PIPE, text=True).stdout.strip()


def build(no_cuda):
    command = [sys.executable, str(ROOT / "scripts" / "make_wheel.py"), *(["--no-cuda"] if no_cuda else [])]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    sys.stdout.write(out.stdout)
    if out.returncode:
        sys.exit(out.returncode)
    return [ROOT / line.split(" ")[0] for line in out.stdout.splitlines()]


def check_metadata(wheels):
    """Build the source package too, and check all packages with twine, as a package index would."""
    pack = [sys.executable, "setup.py", "-q", "sdist"]
    subprocess.run(pack, check=True, cwd=str(ROOT), stdout=subprocess.DEVNULL)
    files = [ROOT / "dist" / f"fashion_infer-{version()}.tar.gz", *wheels]
    if subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)]).returncode:
        sys.exit("fashion-infer: an index would reject the metadata; the reason is above")


def check(wheel):
    """Install a wheel into an empty environment, and run the installed program on the built-in synthetic set."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        programs = Path(folder) / "bin"
        install = [str(programs / "pip"), "--disable-pip-version-check", "install", "-q", str(wheel)]
        run = [str(programs / "fashion-infer"), "run", "--data", "synthetic", "--backend", "cpu", "--n", "1000"]
        for command in (install, run):
            if subprocess.run(command, cwd=folder).returncode:
                sys.exit(f"fashion-infer: {wheel.name} does not work; the reason is above")


if __name__ == "__main__":
    main()
