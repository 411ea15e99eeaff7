"""The command that installs an extra, for each way of installing the package, and the download of MXNet."""

import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from fashion_infer import _mxnet
from fashion_infer._mxnet import loading, wheel
from fashion_infer.errors import DeviceError
from fashion_infer.system import installation

ROOT = Path(__file__).resolve().parents[2]
METADATA = """Metadata-Version: 2.1
Name: fashion-infer
Version: 1
Provides-Extra: board
Requires-Dist: numpy
Requires-Dist: fastapi<1,>=0.115; extra == "board"
Requires-Dist: left-out; python_version < "3" and extra == "board"
Requires-Dist: torch; extra == "peers"
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function that fakes an installation, and returns the words of the command for the extra `board`."""
    info = tmp_path / "site" / "fashion_infer-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    found = metadata.Distribution.at(info)
    monkeypatch.setattr(metadata, "distribution", lambda name: found)
    monkeypatch.setattr(metadata, "requires", lambda name: found.requires)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "elsewhere"))

    return lambda: shlex.split(installation.extra("board"))


def test_the_packages_of_an_extra_are_named(installed):
    words = installed()
    assert words[-2] == "install" and words[-1] in ("fastapi<1,>=0.115", "fastapi>=0.115,<1")


def test_a_checkout_that_is_not_installed(installed, monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", missing)
    assert installed()[-3:] == ["install", "-e", f"{ROOT}[board]"]


def test_a_checkout(monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(ROOT / ".venv"))
    assert installation.extra("board") == "make setup EXTRAS=board"


def test_the_command_installs_into_this_environment(installed, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))  # without pip
    assert installed()[:3] == [sys.executable, "-m", "pip"]


def test_no_command_installs_our_package_from_an_index():
    """PyPI has no such package, and anyone could register the name."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("needs a checkout")
    line = re.compile(r"(pip3?|pipx|uv|uv tool) install [^\n]*(?<![/\w.-])fashion[-_]infer(?![-_/\w.])(?!-\*)")
    wrong = []
    for name in tracked.stdout.splitlines():
        if name.startswith("tests/") or not (ROOT / name).is_file():
            continue
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        wrong += [f"{name}: {found[0]}" for found in line.finditer(text)]
    assert wrong == []


class TestMxnet:
    @pytest.fixture
    def missing(self, bare, monkeypatch):
        """A machine without MXNet. The value is the path in the cache to which MXNet is downloaded."""
        find = wheel.importlib.util.find_spec
        hidden = {"mxnet"}
        monkeypatch.setattr(wheel.importlib.util, "find_spec", lambda name: None if name in hidden else find(name))
        monkeypatch.setattr(sys, "path", list(sys.path))
        self.hidden = hidden
        return bare / ".cache" / "fashion-infer" / f"mxnet-{wheel.VERSION}"

    def pip(self, monkeypatch, code, text=""):
        def run(command, **_):
            if not code:
                folder = Path(command[command.index("--target") + 1]) / "mxnet"
                folder.mkdir()
                (folder / "__init__.py").touch()
            assert "--no-deps" in command and "--require-hashes" in command
            return subprocess.CompletedProcess(command, code, "", text)

        monkeypatch.setattr(wheel.subprocess, "run", run)

    def test_mxnet_is_downloaded_into_the_cache(self, missing, monkeypatch):
        assert _mxnet.build() is None
        self.pip(monkeypatch, 0)
        wheel.fetch()
        assert (missing / "mxnet" / "__init__.py").is_file()
        assert [path.name for path in missing.parent.iterdir()] == [missing.name]
        wheel.locate()
        assert sys.path[-1] == str(missing)

    def test_a_failed_download_names_a_command(self, missing, monkeypatch):
        self.pip(monkeypatch, 1, "WARNING: x\nERROR: no connection\n")
        with pytest.raises(DeviceError, match=r"no connection.*--no-deps mxnet=="):
            loading.load.__wrapped__()
        assert not missing.exists() and not list(missing.parent.iterdir())
