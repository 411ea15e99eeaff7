"""What `make` decides before it works: which part is made anew, why, and what of earlier calls it remembers."""

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fashion_infer import doctor

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.skipif(not (ROOT / "setup.cfg").exists(), reason="needs the checkout")


@pytest.fixture
def machine(make_env, monkeypatch):
    """A function that plans on a machine as described; what it remembers goes from call to call."""
    plans = sys.modules["env_plan"]
    digests = {"library": "0", "package": "0"}
    monkeypatch.setattr(
        plans, "fingerprint", lambda sources: digests["package" if "setup.cfg" in sources else "library"]
    )

    class Machine:
        edited = digests

        def __init__(self):
            self.remembered = {}

        def plan(self, driver=False, nvcc=None, **asked):
            environment = {name: asked.pop(name) for name in plans.SETTINGS if name in asked}
            monkeypatch.setattr(plans, "has_driver", lambda: driver)
            monkeypatch.setattr(plans, "machine_nvcc", lambda: os.environ.get("CUDACXX") or nvcc)
            monkeypatch.setattr(plans.shutil, "which", lambda name: name)
            before = self.remembered
            saved = dict(os.environ)
            try:
                for name in plans.SETTINGS:
                    os.environ.pop(name, None)
                os.environ.update(environment)
                self.remembered = plans.make_plan(before, **asked)
                library = before.get("library"), self.remembered["library"]
                self.why = plans.reason(*library) if library[0] != library[1] else None
            finally:
                os.environ.clear()
                os.environ.update(saved)
            return self.remembered["library"]["nvcc"]

    return Machine()


class TestCuda:
    def test_without_a_driver_it_is_left_out_though_there_is_a_compiler(self, machine):
        assert machine.plan(nvcc="/usr/bin/nvcc") is None
        assert "make setup BACKEND=gpu" in machine.why

    def test_with_a_driver_and_a_compiler_it_is_built(self, machine):
        assert machine.plan(driver=True, nvcc="/usr/bin/nvcc") == "/usr/bin/nvcc"

    def test_with_a_driver_alone_nothing_is_downloaded_unasked(self, machine):
        assert machine.plan(driver=True) is None

    @pytest.mark.parametrize("asked", [{"cuda": True}, {"FASHION_INFER_CUDA": "on"}], ids=["BACKEND=gpu", "variable"])
    @pytest.mark.parametrize("driver", [False, True])
    def test_asked_for_it_is_built_everywhere(self, machine, asked, driver):
        assert machine.plan(driver, "/usr/bin/nvcc", **asked) == "/usr/bin/nvcc"
        machine.remembered = {}
        assert machine.plan(driver, None, **asked) == "PyPI"
        assert "gpu" in machine.remembered["extras"]
        assert any(name.startswith("nvidia-cuda-nvcc") for name in machine.remembered["packages"])

    def test_the_variable_has_the_last_word(self, machine):
        assert machine.plan(True, "/usr/bin/nvcc", cuda=True, FASHION_INFER_CUDA="off") is None

    def test_what_it_may_be(self, machine):
        with pytest.raises(SystemExit, match="none of on, off and auto"):
            machine.plan(FASHION_INFER_CUDA="yes")


class TestRemembered:
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # each example begins anew
    @given(
        st.booleans(),
        st.sampled_from([None, "/a/nvcc"]),
        st.fixed_dictionaries(
            {},
            optional={
                "FASHION_INFER_CUDA": st.sampled_from(["on", "off", "auto"]),
                "FASHION_OPS_CUDA_ARCHS": st.sampled_from(["80", "90a-real"]),
                "CXX": st.sampled_from(["g++-12", "clang++"]),
                "CUDACXX": st.just("/b/nvcc"),
                "cuda": st.just(True),
                "mxnet": st.just("cu112"),
                "more_extras": st.just(("test",)),
            },
        ),
        st.booleans(),
        st.sampled_from([None, "/a/nvcc"]),
    )
    def test_a_plain_call_changes_nothing(self, machine, driver, nvcc, asked, driver_later, nvcc_later):
        """Whatever was asked for, and wherever the checkout is used next: only a driver that is new brings CUDA."""
        machine.remembered = {}
        built = machine.plan(driver, nvcc, **asked)
        before = machine.remembered
        unasked = not asked.get("cuda") and asked.get("FASHION_INFER_CUDA", "auto") == "auto"
        found = asked.get("CUDACXX") or nvcc_later
        later = machine.plan(driver_later, nvcc_later)
        if built is None and unasked and driver_later and found:
            assert later == found and machine.why == " again: now with CUDA"
        else:
            assert machine.remembered == before and machine.why is None

    def test_architectures_count_only_where_cuda_is_built(self, machine):
        machine.plan(nvcc="/n", FASHION_OPS_CUDA_ARCHS="80")
        machine.plan(nvcc="/n", FASHION_OPS_CUDA_ARCHS="90a-real")
        assert machine.why is None
        machine.plan(nvcc="/n", cuda=True)
        assert machine.why == " again: now with CUDA" and machine.remembered["library"]["archs"] == "90a-real"
        machine.plan(nvcc="/n", FASHION_OPS_CUDA_ARCHS="80")
        assert machine.why == " again: FASHION_OPS_CUDA_ARCHS is 80, and was 90a-real"

    def test_a_variable_that_is_empty_is_forgotten(self, machine):
        machine.plan(nvcc="/n", cuda=True, FASHION_OPS_CUDA_ARCHS="80")
        machine.plan(nvcc="/n", FASHION_OPS_CUDA_ARCHS="")
        assert machine.why == " again: FASHION_OPS_CUDA_ARCHS is not set, and was 80"
        assert machine.remembered["settings"] == {"FASHION_INFER_CUDA": "on"}

    def test_an_edit_is_the_reason(self, machine):
        machine.plan()
        machine.edited["library"] = "1"
        machine.plan()
        assert machine.why == " again: its sources have changed"


class TestSteps:
    @pytest.fixture
    def ran(self, make_env, monkeypatch, tmp_path):
        """A function: run make_env on an environment that exists; the steps that it took."""
        taken = []
        for step in list(make_env.STEPS):
            monkeypatch.setitem(make_env.STEPS, step, lambda *_, step=step: taken.append(step))
        for name in sys.modules["env_plan"].SETTINGS:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(make_env, "existing_python", lambda *_: Path(sys.executable))
        monkeypatch.setattr(make_env, "ROOT", tmp_path)
        (tmp_path / "fashion_infer" / "lib").mkdir(parents=True)
        (tmp_path / "fashion_infer" / "lib" / "libfashion_ops.so").touch()

        def run(*arguments):
            taken.clear()
            monkeypatch.setattr(sys, "argv", ["make_env.py", str(tmp_path), *arguments])
            saved = dict(os.environ)
            try:
                make_env.main()
            finally:
                os.environ.clear()
                os.environ.update(saved)
            return list(taken)

        run.record = tmp_path / "fashion-infer.json"
        run.library = tmp_path / "fashion_infer" / "lib" / "libfashion_ops.so"
        return run

    def test_once_and_no_more(self, ran, capsys):
        assert ran() == ["packages", "library", "package"]
        assert ran() == []
        assert capsys.readouterr().err.count("ready") == 1

    def test_an_edit_of_the_library_builds_and_installs_nothing(self, ran, monkeypatch):
        ran()
        plans = sys.modules["env_plan"]
        real = plans.fingerprint
        monkeypatch.setattr(plans, "fingerprint", lambda sources: real(sources) + "edited" * ("custom_ops" in sources))
        assert ran() == ["library"]

    def test_an_extra_installs_and_builds_nothing(self, ran):
        ran()
        assert ran("--extra=test") == ["packages"]
        assert ran() == []

    def test_a_library_that_is_gone(self, ran):
        ran()
        ran.library.unlink()
        assert ran() == ["library"]

    def test_broken_off_it_goes_on_there(self, ran, make_env, monkeypatch):
        def broken(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setitem(make_env.STEPS, "library", broken)
            with pytest.raises(KeyboardInterrupt):
                ran()
        assert ran() == ["library", "package"]

    def test_a_record_of_an_older_version(self, ran):
        ran.record.write_text(json.dumps({"mxnet": "cpu", "extras": ["test"], "sources": "0" * 64}))
        assert ran() == ["packages", "library", "package"]
        assert json.loads(ran.record.read_text())["extras"] == ["test"]


def test_pages_are_no_sources(make_env, monkeypatch, tmp_path):
    plans = sys.modules["env_plan"]
    monkeypatch.setattr(plans, "ROOT", tmp_path)
    for name in ("submission/adapter.h", "net/plan.cpp", "README.md"):
        (tmp_path / "custom_ops" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "custom_ops" / name).write_text("a")
    before = plans.fingerprint(["custom_ops"])
    (tmp_path / "custom_ops" / "README.md").write_text("b")
    (tmp_path / "custom_ops" / "submission" / "adapter.h").write_text("b")
    assert plans.fingerprint(["custom_ops"]) == before
    (tmp_path / "custom_ops" / "net" / "plan.cpp").write_text("b")
    assert plans.fingerprint(["custom_ops"]) != before


def test_every_compiled_file_is_a_source(make_env):
    compiled = sys.modules["env_plan"].COMPILED
    pages = {".md", ".svg", ".json"}
    files = [path for path in (ROOT / "custom_ops").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= compiled | pages


def test_doctor_shows_what_is_remembered(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert doctor._set_up() == []
    record = {"library": {"nvcc": "PyPI"}, "settings": {"FASHION_INFER_CUDA": "on", "FASHION_OPS_CUDA_ARCHS": "80"}}
    (tmp_path / "fashion-infer.json").write_text(json.dumps(record))
    (found,) = doctor._set_up()
    assert found.found == ("with CUDA, by nvcc from PyPI; remembered: FASHION_INFER_CUDA=on FASHION_OPS_CUDA_ARCHS=80")
    (tmp_path / "fashion-infer.json").write_text(json.dumps({"library": {"nvcc": None}}))
    assert doctor._set_up()[0].found == "without CUDA"
