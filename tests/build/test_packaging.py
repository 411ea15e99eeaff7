"""What an installation consists of, as far as that shows without installing."""

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

from fashion_infer.system import resources

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.skipif(not (ROOT / "setup.cfg").exists(), reason="needs the checkout")


@pytest.fixture
def config():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


class TestRequirements:
    def test_never_both_mxnet_wheels(self, config, env_plan):
        assert not re.search(r"^mxnet", config["options.extras_require"]["cu112"], re.MULTILINE)
        cpu = env_plan.requirements("mxnet", {"test"})
        cuda = env_plan.requirements("mxnet-cu112", {"cu112"})
        assert [name for name in cpu if name.startswith("mxnet")] == ["mxnet==1.9.1"]
        assert [name for name in cuda if name.startswith("mxnet")] == ["mxnet-cu112==1.9.1"]
        assert "pytest" in cpu
        assert "pytest" not in cuda
        assert {"nvidia-cudnn-cu11==8.*", "ninja"} <= set(cuda)

    def test_tests_do_not_pull_torch(self, env_plan):
        assert not [name for name in env_plan.requirements("mxnet", {"test"}) if name.startswith(("torch", "nvidia"))]

    def test_one_range_of_pythons(self, config, make_env):
        assert config["options"]["python_requires"] == ">=3.8,<3.13"
        assert (make_env.OLDEST, make_env.NEWEST) == ((3, 8), (3, 12))


class TestPackages:
    def test_every_folder_of_the_package_is_listed(self, config):
        listed = config["options"]["packages"].split()
        folders = [path.parent.relative_to(ROOT) for path in (ROOT / "fashion_infer").rglob("__init__.py")]
        shipped = [f"fashion_infer._data.{name}" for name in ("data", "include", "models", "submission")]
        assert sorted(listed) == sorted([*(".".join(folder.parts) for folder in folders), *shipped])

    def test_the_entry_point_is_there(self, config):
        entry = config["options.entry_points"]["console_scripts"].split("=")[1].strip()
        module, _, function = entry.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


class TestMakeEnv:
    @pytest.mark.parametrize("version", [(3, 7), (3, 13)])
    def test_a_python_that_cannot_be_served(self, make_env, monkeypatch, tmp_path, capsys, version):
        monkeypatch.setattr(make_env.sys, "version_info", version)
        with pytest.raises(SystemExit, match="1"):
            make_env.new_python(tmp_path / "venv")
        message = capsys.readouterr().err
        assert len(message.splitlines()) == 1
        assert "needs Python 3.8 to 3.12" in message
        assert "make PYTHON=" in message
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("installed", [(), ("python3.9",), ("python3.9", "python3.11")])
    def test_another_python_is_named_where_there_is_one(self, make_env, monkeypatch, tmp_path, capsys, installed):
        monkeypatch.setattr(make_env.sys, "version_info", (3, 13))
        for name in installed:
            (tmp_path / name).write_text("")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(SystemExit, match="1"):
            make_env.new_python(tmp_path / "venv")
        message = capsys.readouterr().err
        assert f"make PYTHON={installed[-1] if installed else '/path/to/python3.12'}`" in message
        assert ("install one of those" in message) == (not installed)

    def test_no_venv_module(self, make_env, monkeypatch, tmp_path, capsys):
        monkeypatch.setitem(sys.modules, "ensurepip", None)
        with pytest.raises(SystemExit):
            make_env.new_python(tmp_path / "venv")
        assert capsys.readouterr().err.endswith("(Debian: apt install python3-venv)\n")

    def test_no_compiler(self, make_env, monkeypatch, tmp_path, capsys):
        monkeypatch.setenv("CXX", "no-such-compiler -O2")
        with pytest.raises(SystemExit):
            make_env.new_python(tmp_path / "venv")
        message = capsys.readouterr().err
        assert "no C++ compiler 'no-such-compiler'" in message
        assert "apt install build-essential" in message
        assert not list(tmp_path.iterdir())

    def test_interrupted_while_making(self, make_env, monkeypatch, tmp_path):
        venv = tmp_path / "venv"

        def run(*command):
            venv.mkdir()
            raise KeyboardInterrupt

        monkeypatch.setattr(make_env, "run", run)
        with pytest.raises(KeyboardInterrupt):
            make_env.new_python(venv)
        assert not venv.exists()

    def test_a_file_in_the_way_is_not_removed(self, make_env, tmp_path):
        (tmp_path / "venv").write_text("mine")
        with pytest.raises(SystemExit):
            make_env.new_python(tmp_path / "venv")
        assert (tmp_path / "venv").read_text() == "mine"

    def test_broken_environment_is_seen(self, make_env, tmp_path):
        assert make_env.existing_python(tmp_path, False) is None
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "python").symlink_to("/nowhere")
        assert make_env.existing_python(tmp_path, False) is None


class TestFiles:
    def test_in_a_checkout(self):
        assert (resources.resource_dir("data") / "synthetic.npz").is_file()
        assert resources.library_path().is_absolute()

    def test_in_a_wheel(self, tmp_path):
        package = tmp_path / "fashion_infer"
        (package / "_data" / "models").mkdir(parents=True)
        (package / "system").mkdir()
        shutil.copy(resources.__file__, package / "system")
        installed = runpy.run_path(str(package / "system" / "resources.py"))
        assert installed["resource_dir"]("models") == package / "_data" / "models"
        assert installed["library_path"]() == package / "lib" / "libfashion_ops.so"

    @pytest.mark.skipif(not shutil.which("nm"), reason="needs nm")
    def test_the_library_shows_its_two_interfaces_and_no_more(self):
        command = ["nm", "-D", "--defined-only", str(resources.library_path())]
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        names = {line.split()[2] for line in lines}
        assert {"initialize", "_opRegGet", "fops_build_info"} <= names
        assert not [name for name in names if not re.match(r"initialize$|fops_|_(op|part|pass|msg)[A-Z]", name)]

    @pytest.mark.skipif(not shutil.which("make"), reason="needs make")
    def test_make_lists_its_commands(self):
        out = subprocess.run(["make", "-C", str(ROOT)], check=True, stdout=subprocess.PIPE, text=True).stdout
        for target in ("setup", "run", "test", "test-all", "bench", "lint", "docs", "wheel", "release", "clean"):
            assert f"make {target} " in out

    def test_every_room_is_in_the_wheel(self, config):
        # A template in Python is a file that the package carries.
        rooms = {path.parent for path in (ROOT / "fashion_infer").rglob("*.py")} - {
            ROOT / "fashion_infer" / "kernel_files" / "templates"
        }
        listed = set(config["options"]["packages"].split())
        assert {".".join(path.relative_to(ROOT).parts) for path in rooms} == {
            name for name in listed if not name.startswith("fashion_infer._data")
        }


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory):
    """What a wheel unpacks to: everything that setup.py puts into one, and the library that is built already."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(folder)]  # compiles nothing
    subprocess.run(command, check=True, cwd=str(ROOT), stdout=subprocess.DEVNULL)
    (folder / "fashion_infer" / "lib").mkdir()
    shutil.copy(str(resources.library_path()), str(folder / "fashion_infer" / "lib"))
    return folder


class TestInstalled:
    def test_it_runs_without_the_checkout(self, unpacked, tmp_path):
        """Every file that the program reads came along: models, the built-in set, templates, the library."""
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

    def test_nothing_else_came_along(self, unpacked):
        assert sorted(path.name for path in unpacked.iterdir()) == ["fashion_infer"]
        assert not list(unpacked.rglob("tests"))
