"""Grading on a device: templates of every format get full marks; attacks get their verdicts, and do not harm the
device.
"""

import functools
from pathlib import Path

import pytest
from attacks.verdicts import ATTACKS, check, judged
from profiles import drawn

from fashion_infer.grading import rubric
from fashion_infer.grading.device import Gpu
from fashion_infer.grading.sandbox import available, layers
from fashion_infer.kernel_files import formats
from fashion_infer.system import compilers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.alone,
    pytest.mark.skipif(compilers.find_nvcc() is None, reason="no nvcc"),
    pytest.mark.skipif(not available().isolated, reason="no sandbox"),
]
ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "fashion_infer" / "kernel_files" / "templates"
HONEST = TEMPLATES / "conv.cu"
ON_GPU = [entry for entry in formats.FORMATS if entry.backend == "gpu"]
FILES = sorted((ATTACKS / "gpu").glob("*.cu"))


@pytest.fixture(scope="module")
def asked():
    return rubric.read(str(ATTACKS / "rubric-gpu.toml"))


_SPILLS = """
__global__ __launch_bounds__(1024, 2) void unused(float* y, int n) {  // 256 sums, and 32 registers
  float sums[256];
#pragma unroll
  for (int i = 0; i < 256; ++i) sums[i] = y[i * n];
  for (int step = 0; step < n; ++step)
#pragma unroll
    for (int i = 0; i < 256; ++i) sums[i] += sums[(i + 17) % 256];
#pragma unroll
  for (int i = 0; i < 256; ++i) y[i * n] = sums[i];
}
"""


def whole(verdict):
    """Whether the machine has all layers of the sandbox, without which nothing is ranked."""
    return not verdict.sandbox.get("lacking")


def shown(verdict):
    """Return the parts of a verdict that a failed assertion shows."""
    return verdict.status, verdict.reason, verdict.findings, verdict.marks.marks, verdict.printed[-500:]


@pytest.mark.parametrize("entry", drawn(ON_GPU, 1), ids=lambda entry: entry.name)
def test_templates_have_full_marks(entry, asked):
    (verdict,) = judged(asked, TEMPLATES / entry.template)
    assert (verdict.marks.points, verdict.findings, verdict.ranked) == (100, (), whole(verdict)), shown(verdict)
    (times,) = verdict.marks.times
    assert times.op <= times.layer_time and verdict.device["gpu"]
    if "phases" not in str(entry.adapter):
        assert times.op == times.layer_time
    assert verdict.sandbox["in_force"]["seccomp"] == available().seccomp


def a_rubric_allows_what_the_compiler_says(asked, tmp_path, monkeypatch):
    path = tmp_path / "conv.cu"
    path.write_text(HONEST.read_text() + _SPILLS)
    (verdict,) = judged(asked._replace(show=asked.show._replace(explain=True)), path)
    assert verdict.marks.points == 100, shown(verdict)
    assert [one["code"] for one in verdict.explained] == ["spills"] and verdict.explained[0]["evidence"]["spills"]


def an_attack_gets_its_verdict_and_the_device_still_works(path, asked, tmp_path, monkeypatch):
    attacked, honest = judged(asked, path, HONEST)
    try:
        check(path, attacked, ranked=whole(attacked))
    except AssertionError as error:
        raise AssertionError(f"{error}: {shown(attacked)}") from error
    assert honest.marks.points == 100, shown(honest)


def replacing_synchronisation_does_not_shorten_the_time(asked, tmp_path, monkeypatch):
    source = ATTACKS / "gpu" / "replaces-synchronise.cu"
    twin = tmp_path / source.name
    twin.write_text(source.read_text().replace("  patch(", "  (void)("))
    (tmp_path / "conv.cuh").write_text((source.parent / "conv.cuh").read_text())
    attacked, honest = judged(asked, source, twin)
    assert honest.marks.points == 100, shown(honest)
    # If the attack worked, the time of at most one of 20 passes would be measured.
    assert attacked.marks.op_ms > honest.marks.op_ms / 2, (attacked.marks, honest.marks)


def without_bubblewrap_the_other_layers_protect(asked, tmp_path, monkeypatch):
    if not (available().landlock and available().seccomp):
        pytest.skip("no Landlock, or no seccomp")
    bare = available()._replace(bubblewrap=None, refusal="a test")
    monkeypatch.setattr(layers, "available", lambda: bare)
    attacked, honest = judged(asked, ATTACKS / "gpu" / "reads-passwd.cu", HONEST)
    check(ATTACKS / "gpu" / "reads-passwd.cu", attacked, ranked=False)
    assert honest.marks.points == 100, shown(honest)


def test_lost_device_memory_is_reported(monkeypatch):
    gpu = Gpu(0)
    assert gpu.ill() is None
    monkeypatch.setattr("fashion_infer.grading.device.gpu._WAIT", 0.1)
    gpu._free += 1 << 30
    assert "MiB of its memory were not freed" in gpu.ill()


def half_precision_is_refused_if_the_rubric_asks_for_float32(asked, tmp_path, monkeypatch):
    (verdict,) = judged(asked, ROOT / "tests" / "submissions" / "right" / "gpu-names.cu")
    assert [finding.code for finding in verdict.findings] == ["less_precise"] * 2, shown(verdict)
    (verdict,) = judged(asked._replace(precision="half"), ROOT / "tests" / "submissions" / "right" / "gpu-names.cu")
    assert verdict.marks.points == 100, shown(verdict)


OTHERS = [
    a_rubric_allows_what_the_compiler_says,
    replacing_synchronisation_does_not_shorten_the_time,
    without_bubblewrap_the_other_layers_protect,
    half_precision_is_refused_if_the_rubric_asks_for_float32,
]
TRIALS = {path.stem: functools.partial(an_attack_gets_its_verdict_and_the_device_still_works, path) for path in FILES}
TRIALS.update((other.__name__, other) for other in OTHERS)


@pytest.mark.parametrize("name", drawn(list(TRIALS), 1))
def test_grading(name, asked, tmp_path, monkeypatch):
    TRIALS[name](asked, tmp_path, monkeypatch)
