"""What setup.cfg and a wheel contain, and the checks before a release, without installing the package."""

import configparser
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import profiles
import pytest

import fashion_infer
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
        """MXNet's metadata would replace a NumPy 2, and the two wheels of MXNet install into the same folder."""
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
        shipped = [f"fashion_infer._data.{name}" for name in ("data", "docs", "include", "models", "submission")]
        assert sorted(listed) == sorted([*(".".join(folder.parts) for folder in folders), *shipped])


class TestFiles:
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

    def test_one_version_everywhere(self, metadata, of_scripts):
        assert f"Version: {fashion_infer.__version__}" in metadata
        assert of_scripts("release").version() == fashion_infer.__version__
        assert f"\nversion: {fashion_infer.__version__}\n" in (ROOT / "CITATION.cff").read_text()


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

    def test_ready(self, of_scripts, checkout):
        assert of_scripts("release").problems(checkout) == []

    def test_all_problems_are_listed(self, of_scripts, checkout):
        number = fashion_infer.__version__
        subprocess.run(["git", "tag", f"v{number}"], check=True, cwd=str(checkout))
        (checkout / "CITATION.cff").write_text("version: 0.0.1\n")
        (checkout / "CHANGELOG.md").write_text(f"## {number}, not released\n")
        said = of_scripts("release").problems(checkout)
        assert len(said) == 4
        for words in ("not committed", "tagged already", "CITATION.cff", "no dated section"):
            assert any(words in line for line in said)


@pytest.mark.slow
@pytest.mark.skipif(profiles.pick(True, False), reason="takes a minute, and concerns releases: part of make test-all")
@pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
def test_a_library_linked_with_the_stubs_needs_an_old_glibc(of_scripts, tmp_path):
    """The library uses threads, dlopen and libstdc++, for which a newer glibc would record a newer version."""
    pytest.importorskip("ziglang")
    of_scripts("glibc_stubs").make(tmp_path / "glibc", "x86_64", "2.28", "c++")
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
