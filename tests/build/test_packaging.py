"""What setup.cfg and a wheel contain, as far as this can be checked without installing the package."""

import configparser
import importlib
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fashion_infer._mxnet import wheel
from fashion_infer.system import installation

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.skipif(not (ROOT / "setup.cfg").exists(), reason="needs the checkout")


@pytest.fixture
def config():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


class TestRequirements:
    def test_no_requirement_installs_mxnet_or_pins_numpy(self, config):
        """No requirement installs MXNet or pins NumPy.

        MXNet's metadata would replace a NumPy 2, and the two wheels of MXNet install into the same folder.
        """
        extras = dict(config["options.extras_require"])
        for text in (config["options"]["install_requires"], *extras.values()):
            names = [re.split(r"[^\w.-]", line)[0] for line in text.split("\n")[1:]]
            assert not {"mxnet", "mxnet-cu112"} & set(names)
            assert "numpy" not in names or "\nnumpy\n" in f"{text}\n"

    def test_the_test_extra_does_not_install_torch(self, config):
        assert not re.search(r"^(torch|nvidia)", config["options.extras_require"]["test"], re.MULTILINE)

    def test_the_wheels_of_mxnet_are_verified(self):
        lines = wheel.REQUIREMENT.read_text()
        assert re.search(rf"^mxnet=={wheel.VERSION} ", lines, re.MULTILINE)
        assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", lines)) == 2  # one for x86-64 and one for Arm


class TestPackages:
    def test_every_folder_of_the_package_is_listed(self, config):
        listed = config["options"]["packages"].split()
        folders = [path.parent.relative_to(ROOT) for path in (ROOT / "fashion_infer").rglob("__init__.py")]
        shipped = [f"fashion_infer._data.{name}" for name in ("data", "include", "models", "submission")]
        assert sorted(listed) == sorted([*(".".join(folder.parts) for folder in folders), *shipped])

    def test_the_entry_point_exists(self, config):
        entry = config["options.entry_points"]["console_scripts"].split("=")[1].strip()
        module, _, function = entry.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


class TestFiles:
    def test_in_a_checkout(self):
        assert (installation.resource_dir("data") / "synthetic.npz").is_file()
        assert installation.library_path().is_absolute()

    def test_in_a_wheel(self, tmp_path):
        package = tmp_path / "fashion_infer"
        (package / "_data" / "models").mkdir(parents=True)
        (package / "system").mkdir()
        shutil.copy(installation.__file__, package / "system")
        installed = runpy.run_path(str(package / "system" / "installation.py"))
        assert installed["resource_dir"]("models") == package / "_data" / "models"
        assert installed["library_path"]() == package / "lib" / "libfashion_ops.so"

    @pytest.mark.skipif(not shutil.which("nm"), reason="needs nm")
    def test_the_library_exports_only_its_interfaces(self):
        command = ["nm", "-D", "--defined-only", str(installation.library_path())]
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        names = {line.split()[2] for line in lines}
        assert {"initialize", "_opRegGet", "fops_build_info"} <= names
        assert not [name for name in names if not re.match(r"initialize$|fops_|_(op|part|pass|msg)[A-Z]", name)]


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory):
    """The folder of an unpacked wheel: what setup.py puts into a wheel, with the library that is already built."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(folder)]  # compiles nothing
    subprocess.run(command, check=True, cwd=str(ROOT), stdout=subprocess.DEVNULL)
    (folder / "fashion_infer" / "lib").mkdir()
    shutil.copy(str(installation.library_path()), str(folder / "fashion_infer" / "lib"))
    return folder


class TestInstalled:
    def test_it_runs_without_the_checkout(self, unpacked, tmp_path):
        """An unpacked wheel runs inference without the checkout, and contains models, the built-in dataset and
        templates.
        """
        code = """
import sys
from pathlib import Path
import fashion_infer
from fashion_infer.present import render
from fashion_infer.checkpoints import zoo
assert Path(fashion_infer.__file__).parent == Path(sys.argv[1]), fashion_infer.__file__
result = fashion_infer.infer(n=100, data="synthetic", backend="cpu")
assert all(model.path.is_file() for model in zoo.MODELS.values())
assert all((Path(render.__file__).parent / "templates" / name).is_file() for name in sys.argv[2:])
print(result.correctness == (result.predictions == result.labels).mean() > 0.5)
"""
        templates = [path.name for path in (ROOT / "fashion_infer/present/render/templates").iterdir()]
        environment = {**os.environ, "PYTHONPATH": str(unpacked)}
        command = [sys.executable, "-c", code, str(unpacked / "fashion_infer"), *templates]
        done = subprocess.run(command, cwd=str(tmp_path), env=environment, capture_output=True, text=True)
        assert done.stdout == "True\n", done.stderr

    def test_a_wheel_has_only_the_package(self, unpacked):
        assert sorted(path.name for path in unpacked.iterdir()) == ["fashion_infer"]
        assert not list(unpacked.rglob("tests"))
