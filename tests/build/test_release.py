"""A release: metadata, tags of wheels, and the checks before a git tag."""

import configparser
import importlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import fashion_infer

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.skipif(not (ROOT / "setup.cfg").exists(), reason="needs the checkout")


@pytest.fixture
def script(monkeypatch):
    """A function that imports a module of scripts/."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    """The lines of the METADATA file that setuptools generates from setup.cfg."""
    folder = tmp_path_factory.mktemp("metadata")
    command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(folder)]
    subprocess.run(command, check=True, cwd=str(ROOT), stdout=subprocess.DEVNULL)
    return (folder / "fashion_infer.egg-info" / "PKG-INFO").read_text().splitlines()


class TestMetadata:
    def test_the_licence_has_its_spdx_name(self, metadata):
        assert "License: Apache-2.0" in metadata or "License-Expression: Apache-2.0" in metadata
        assert "License-File: LICENSE" in metadata

    def test_one_version_everywhere(self, metadata, script):
        assert f"Version: {fashion_infer.__version__}" in metadata
        assert script("release").version() == fashion_infer.__version__
        assert f"\nversion: {fashion_infer.__version__}\n" in (ROOT / "CITATION.cff").read_text()

    def test_extras(self, metadata):
        extras = {line.split(": ")[1] for line in metadata if line.startswith("Provides-Extra")}
        assert {"profile", "peers", "train", "test", "gpu", "cu112"} <= extras

    def test_the_licence_file_is_complete(self):
        text = (ROOT / "LICENSE").read_text()
        assert "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text

    def test_the_package_is_marked_as_typed(self):
        config = configparser.ConfigParser()
        config.read(ROOT / "setup.cfg")
        assert config["options.package_data"]["fashion_infer"] == "py.typed"
        assert (ROOT / "fashion_infer" / "py.typed").is_file()


class TestChecks:
    @pytest.fixture
    def checkout(self, tmp_path):
        """A git repository in a state that can be released."""
        number = fashion_infer.__version__
        (tmp_path / "CITATION.cff").write_text(f"title: x\nversion: {number}\nlicense: y\n")
        (tmp_path / "CHANGELOG.md").write_text(f"# Changes\n\n## {number}, 2026-01-31\n\n- x\n")
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
            subprocess.run([*git, *words], check=True, cwd=str(tmp_path))
        return tmp_path

    def test_ready(self, script, checkout):
        assert script("release").problems(checkout) == []

    def test_all_problems_are_listed(self, script, checkout):
        number = fashion_infer.__version__
        subprocess.run(["git", "tag", f"v{number}"], check=True, cwd=str(checkout))
        (checkout / "CITATION.cff").write_text("version: 0.0.1\n")
        (checkout / "CHANGELOG.md").write_text(f"## {number}, not released\n")
        said = script("release").problems(checkout)
        assert len(said) == 4
        for words in ("not committed", "tagged already", "CITATION.cff", "no dated section"):
            assert any(words in line for line in said)


@pytest.fixture
def wheels(script, monkeypatch, tmp_path):
    """The module scripts/make_wheel.py, with another dist/. `wheels.finds` sets what a fake auditwheel reports."""
    module = script("make_wheel")
    monkeypatch.setattr(module, "ROOT", tmp_path)

    def finds(verdict):
        def run(command, **_):
            if "tags" in command:
                name = command[-1].name.replace("linux_x86_64", command[command.index("--platform-tag") + 1])
                command[-1].rename(command[-1].parent / name)
                return subprocess.CompletedProcess(command, 0, name + "\n")
            folder = Path(command[command.index("-w") + 1])
            folder.mkdir()
            (folder / f"fashion_infer-0-py3-none-{verdict}.whl").touch()
            return subprocess.CompletedProcess(command, 0)

        monkeypatch.setattr(module.subprocess, "run", run)

    module.finds = finds
    return module


@pytest.mark.parametrize("verdict, good", [
    ("manylinux_2_17_x86_64.manylinux2014_x86_64", True), ("manylinux_2_27_x86_64", True),
    ("manylinux_2_28_x86_64", True), ("manylinux_2_31_x86_64", False), ("linux_x86_64", False),
])  # fmt: skip
def test_a_wheel_that_needs_a_newer_glibc_is_refused(wheels, tmp_path, verdict, good):
    wheels.finds(verdict)
    wheel = tmp_path / "build" / "fashion_infer-0-py3-none-linux_x86_64.whl"
    wheel.parent.mkdir()
    wheel.touch()
    if good:
        name = "fashion_infer-0-py3-none-manylinux_2_28_x86_64.whl"
        assert wheels.audited(wheel, "x86_64") == tmp_path / "dist" / name
    else:
        with pytest.raises(SystemExit):
            wheels.audited(wheel, "x86_64")
        assert not list(tmp_path.glob("dist/*"))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
def test_a_library_linked_with_the_stubs_needs_an_old_glibc(script, tmp_path):
    """A library linked with the stubs of scripts/glibc_stubs.py needs at most glibc 2.28.

    The library uses threads, dlopen and libstdc++, for which a newer glibc would record a newer version.
    """
    pytest.importorskip("ziglang")
    script("glibc_stubs").make(tmp_path / "glibc", "x86_64", "2.28", "c++")
    source = "#include <dlfcn.h>\n#include <thread>\nvoid f() { std::thread([] { dlopen(0, 0); }).join(); }\n"
    (tmp_path / "a.cpp").write_text(source)
    link = ["-shared", "-fPIC", "-static-libstdc++", f"-L{tmp_path / 'glibc'}", "-Wl,-z,defs", "a.cpp", "-o", "a.so"]
    subprocess.run(["c++", *link], check=True, cwd=str(tmp_path))
    table = subprocess.run(["objdump", "-T", "a.so"], check=True, cwd=str(tmp_path), capture_output=True, text=True)
    versions = {tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", table.stdout)}
    assert versions and max(versions) <= (2, 28)


WHEELS = sorted((ROOT / "dist").glob("*.whl")) or [pytest.param(None, marks=pytest.mark.skip("no wheel was made here"))]


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda path: path and path.name)
def test_wheels_in_dist(wheel):
    assert re.search(r"-py3-none-manylinux_2_28_(x86_64|aarch64)\.whl$", wheel.name)
    assert wheel.stat().st_size < 40e6
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
    assert "fashion_infer/lib/libfashion_ops.so" in names and "fashion_infer/py.typed" in names
    assert any(name.endswith("/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "scripts/")) for name in names)
