"""scripts/make_env.py: how it plans an environment, which parts it makes again, and what it refuses."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import profiles
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.skipif(not (ROOT / "setup.cfg").exists(), reason="needs the checkout")


@pytest.fixture
def plan(make_env, monkeypatch):
    """A function that returns make_env's plan for a machine with these properties, after an earlier plan."""

    def call(before=None, driver=False, nvcc=None, mxnet=None, extra=(), cuda=False, **variables):
        for name in make_env.SETTINGS:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setitem(make_env.compilers, "has_driver", lambda: driver)
        monkeypatch.setitem(make_env.compilers, "find_nvcc", lambda sites: nvcc)
        return make_env.plan(before or {}, argparse.Namespace(mxnet=mxnet, extra=extra, cuda=cuda))

    return call


@pytest.mark.parametrize(
    "machine, built, from_pypi",
    [
        ({"nvcc": "/n"}, False, False),
        ({"driver": True}, False, False),
        ({"driver": True, "nvcc": "/n"}, True, False),
        ({"cuda": True}, True, True),
        ({"cuda": True, "nvcc": "/n"}, True, False),
        ({"FASHION_INFER_CUDA": "on"}, True, True),
        ({"FASHION_INFER_CUDA": "on", "CUDACXX": "/c"}, True, False),
        ({"driver": True, "nvcc": "/n", "cuda": True, "FASHION_INFER_CUDA": "off"}, False, False),
    ],
)
def test_when_cuda_is_built(plan, machine, built, from_pypi):
    found = plan(**machine)
    assert found["library"]["cuda"] is built
    assert ("gpu" in found["package"]["extras"]) is from_pypi


def test_an_unknown_value_of_a_variable_is_refused(plan):
    with pytest.raises(SystemExit):
        plan(FASHION_INFER_CUDA="yes")


def test_a_record_that_cannot_be_used_counts_as_none(make_env, plan, tmp_path):
    record = tmp_path / "fashion-infer.json"
    assert make_env.recorded(record) == {}
    for text in ("", "[]", '{"asked": {"mxnet": "cpu"}, "package": ["numpy"]}', '{"mxnet": "cpu"}'):
        record.write_text(text)
        assert make_env.recorded(record) == {}
    record.write_text(json.dumps(plan()))
    assert make_env.recorded(record) == plan()


@settings(max_examples=profiles.examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries(
        {"driver": st.booleans(), "nvcc": st.sampled_from([None, "/n"])},
        optional={
            "FASHION_INFER_CUDA": st.sampled_from(["on", "off", "auto"]),
            "FASHION_OPS_CUDA_ARCHS": st.sampled_from(["80", "90a-real"]),
            "CXX": st.sampled_from(["g++-12", "clang++"]),
            "CUDACXX": st.just("/b/nvcc"),
            "cuda": st.just(True),
            "mxnet": st.just("cu112"),
            "extra": st.just(("test",)),
        },
    )
)
def test_a_later_call_without_options_changes_nothing(plan, asked):
    before = plan(**asked)
    assert plan(before, asked["driver"], asked["nvcc"]) == before


def test_a_build_with_cuda_is_kept_without_a_driver(plan):
    before = plan(driver=True, nvcc="/n")
    assert plan(before, nvcc="/n")["library"] == before["library"]


def test_architectures_matter_only_with_cuda(plan):
    assert plan(FASHION_OPS_CUDA_ARCHS="80")["library"] == plan()["library"]
    on = plan(cuda=True, FASHION_OPS_CUDA_ARCHS="80")
    assert on["library"] != plan(on, FASHION_OPS_CUDA_ARCHS="90a-real")["library"]


def test_an_empty_variable_resets_the_setting(plan):
    before = plan(CXX="clang++")
    assert plan(before, CXX="")["asked"]["settings"] == {}


@pytest.fixture
def make(make_env, monkeypatch, tmp_path):
    """A function that runs make_env on an existing environment, and returns the parts that it made."""
    made = []
    for part in ("install_tools", "build_library", "install_package"):
        monkeypatch.setattr(make_env, part, lambda *_, part=part: made.append(part))
    for name in make_env.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(make_env, "existing_python", lambda *_: (Path(sys.executable), sys.version_info[:2]))
    root = tmp_path / "checkout"
    monkeypatch.setattr(make_env, "ROOT", root)
    monkeypatch.setattr(make_env, "PACKAGE_SOURCES", (root / "setup.cfg",))
    monkeypatch.setattr(make_env, "LIBRARY_SOURCES", (root / "custom_ops",))
    for name in ("setup.cfg", "custom_ops/net/plan.cpp", "custom_ops/README.md", "custom_ops/submission/adapter.h"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("a")
    call_library = root / "fashion_infer" / "lib" / "libfashion_ops.so"
    call_library.parent.mkdir(parents=True)
    call_library.touch()

    def call(*arguments):
        made.clear()
        monkeypatch.setattr(sys, "argv", ["make_env.py", str(tmp_path), *arguments])
        saved = dict(os.environ)
        try:
            make_env.main()
        finally:
            os.environ.clear()
            os.environ.update(saved)
        return list(made)

    call.root, call.library = root, call_library
    return call


ALL = ["install_tools", "build_library", "install_package"]
PACKAGE = ["install_tools", "install_package"]


def test_nothing_is_made_twice(make):
    assert make() == ALL
    assert make() == []
    (make.root / "custom_ops" / "README.md").write_text("b")
    (make.root / "custom_ops" / "submission" / "adapter.h").write_text("b")
    assert make() == []


def test_a_change_makes_only_the_affected_parts(make):
    make()
    (make.root / "custom_ops" / "net" / "plan.cpp").write_text("b")
    assert make() == ["build_library"]
    make.library.unlink()
    assert make() == ["build_library"]
    make.library.touch()
    assert make("--extra=test") == PACKAGE
    (make.root / "setup.cfg").write_text("b")
    assert make() == PACKAGE
    assert make() == []


def test_an_interrupted_part_is_made_again(make, make_env, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(make_env, "build_library", interrupted)
        with pytest.raises(KeyboardInterrupt):
            make("--extra=test")
    assert make() == ALL


def test_every_type_of_source_file_is_known(make_env):
    suffixes = {path.suffix for path in (ROOT / "custom_ops").rglob("[!.]*") if path.is_file()}
    assert suffixes <= make_env.COMPILED | {".md", ".svg", ".json"}


class TestNewPython:
    @pytest.fixture
    def refused(self, make_env, tmp_path, capsys):
        """A function that lets make_env refuse to create an environment, and returns the error's one line."""

        def call():
            before = sorted(tmp_path.iterdir())
            with pytest.raises(SystemExit, match="1"):
                make_env.new_python(tmp_path / "venv")
            assert sorted(tmp_path.iterdir()) == before
            (line,) = capsys.readouterr().err.splitlines()
            return line

        return call

    def test_an_old_python(self, make_env, monkeypatch, refused):
        monkeypatch.setattr(make_env.sys, "version_info", (3, 7, 16))
        assert "PYTHON=" in refused()

    def test_no_venv_module(self, monkeypatch, refused):
        monkeypatch.setitem(sys.modules, "ensurepip", None)
        assert "apt install python3-venv" in refused()

    def test_no_compiler(self, monkeypatch, refused):
        monkeypatch.setenv("CXX", "no-such-compiler -O2")
        assert "no-such-compiler" in refused()

    def test_a_file_in_the_way(self, tmp_path, refused):
        (tmp_path / "venv").write_text("mine")
        refused()
        assert (tmp_path / "venv").read_text() == "mine"

    def test_an_interrupted_environment_is_deleted(self, make_env, monkeypatch, tmp_path):
        venv = tmp_path / "venv"

        def run(*command):
            venv.mkdir()
            raise KeyboardInterrupt

        monkeypatch.setattr(make_env, "run", run)
        with pytest.raises(KeyboardInterrupt):
            make_env.new_python(venv)
        assert not venv.exists()

    def test_a_broken_environment_is_not_used(self, make_env, tmp_path):
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "python").symlink_to("/nowhere")
        assert make_env.existing_python(tmp_path, False) is None


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_make_lists_its_commands():
    out = subprocess.run(["make", "-C", str(ROOT)], check=True, stdout=subprocess.PIPE, text=True).stdout
    targets = re.search(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert len(targets) > 9 and all(f"make {target} " in out for target in targets)
