"""The judge of kernel files on the CPU refuses the planted bugs, with the code of each bug."""

from pathlib import Path

import kernel_loading
import pytest
from planted_bugs import PLANTED
from profiles import drawn

from fashion_infer.errors import UsageError
from fashion_infer.judging import reasons, trials

ROOT = Path(__file__).resolve().parent.parent.parent
WRONG = ROOT / "tests" / "submissions" / "wrong"
RIGHT = ROOT / "tests" / "submissions" / "right"
TEMPLATES = ROOT / "fashion_infer" / "kernel_files" / "templates"
SMALL = [(2, 13, 40, 4), (1, 28, 6, 5)]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """A separate cache folder for the tests of this module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("name", drawn(sorted(PLANTED), 8))
def test_each_planted_bug_has_its_reason(name):
    found = kernel_loading.check(WRONG / f"{name}.cpp", shapes=SMALL, images=4)
    assert not found.right and found.tried[0].code == PLANTED[name]
    assert all(one.right or one.code == PLANTED[name] for one in found.tried)


@pytest.mark.parametrize(
    "name, side",
    [
        ("boundary", "last column"),
        ("last-row", "last row"),
        ("first-row", "first row"),
        ("first-column", "first column"),
    ],
)
def test_the_side_of_a_border_is_named(name, side):
    found = kernel_loading.check(WRONG / f"{name}.cpp", shapes=SMALL[1:], images=2)
    assert side in found.sentence


def test_fixed_sizes_are_found_by_comparing_shapes():
    shapes = [(1, 64, 6, 5), (2, 13, 4, 4), (1, 28, 6, 5)]
    found = kernel_loading.check(WRONG / "fixed-sizes.cpp", shapes=shapes, images=2)
    assert [one.right for one in found.tried] == [True, False, False]
    assert found.reason == reasons.sentence("fixed_sizes") and not found.right


def test_sizes_are_not_fixed_in_a_file_that_is_correct_for_several(tmp_path):
    """A file that crashes, or is wrong only with several channels, is not called a file with fixed sizes."""
    file = tmp_path / "conv.cpp"
    template = (TEMPLATES / "conv.cpp").read_text()
    shapes = [(1, 13, 5, 4), (1, 28, 6, 5), (2, 13, 4, 4)]
    file.write_text("#include <cstdlib>\n" + template.replace("{\n", "{\n  if (H != 28) abort();\n", 1))
    crashed = kernel_loading.check(file, shapes=shapes, images=2)
    assert [one.code for one in crashed.tried] == ["crash", "", "crash"] and not crashed.reason
    file.write_text(template.replace("sum += x", "sum += (c + 1) * x"))
    channels = kernel_loading.check(file, shapes=shapes, images=2)
    assert [one.right for one in channels.tried] == [True, True, False]
    assert channels.reason == reasons.sentence("several_channels")


def test_threads_that_go_on_after_the_call_are_found():
    found = kernel_loading.check(WRONG / "threads-not-joined.cpp", shapes=[(1, 28, 50, 5)])
    assert found.tried[0].code in ("returns_early", "race")


@pytest.mark.parametrize("bits", [7, 6])
def test_imprecise_sums_are_no_state_between_calls(tmp_path, bits):
    """Sums of operands with few bits are correct in some calls, and imprecise in others or in all."""
    file = tmp_path / "conv.cpp"
    text = (TEMPLATES / "conv.cpp").read_text()
    rounded = (
        "static float rounded(float v) { int e; float f = std::frexp(v, &e); "
        f"return std::ldexp(std::round(f * {1 << bits}), e - {bits}); }}"
    )
    text = text.replace('extern "C"', f'#include <cmath>\n{rounded}\nextern "C"').replace("+= x[", "+= rounded(x[", 1)
    text = text.replace("] * k[", "]) * rounded(k[").replace("+ q];", "+ q]);")
    file.write_text(text)
    found = kernel_loading.check(file, images=2, shapes=[(1, 13, 5, 3), (2, 13, 4, 4), (1, 28, 6, 5), (12, 33, 4, 5)])
    assert {one.code for one in found.tried} <= {"", "imprecise"}


@pytest.mark.parametrize("name", ["doubles.cpp", "output-first.cpp", "weights-first.cpp", "not-extern-c.cpp"])
def test_wrong_parameters_are_refused(name):
    with pytest.raises(UsageError):
        kernel_loading.check(WRONG / name)


@pytest.mark.parametrize("seed", range(3))
def test_a_race_is_found_each_time(seed):
    found = kernel_loading.check(WRONG / "race-over-taps.cpp", shapes=[(1, 28, 50, 5)], seed=seed)
    assert [one.code for one in found.tried] == ["race"]


def test_half_precision_is_correct_and_reported():
    found = kernel_loading.check(WRONG / "half.cpp", shapes=SMALL, images=4)
    assert found.right and found.precision == "tf32 or half"


def test_sums_in_varying_order_are_correct(tmp_path):
    """A kernel whose threads add with atomics, in an order that varies, is correct.

    Its bits differ from call to call, but its errors are within the bound.
    """
    file = tmp_path / "reduces.cpp"
    file.write_text(
        (WRONG / "race-over-taps.cpp")
        .read_text()
        .replace("loops.h", str(WRONG / "loops.h"))
        .replace("++w) y[", "++w)\n#pragma omp atomic\n                y[")
    )
    assert kernel_loading.check(file, shapes=[(2, 13, 8, 4)]).right


def test_every_shape_is_called_several_times():
    found = kernel_loading.check(TEMPLATES / "conv.cpp", shapes=SMALL)
    assert all(one.calls >= 5 + 3 for one in found.tried)


def test_a_crash_fails_only_its_shape(tmp_path):
    """A kernel that is correct for fa2018, but crashes, exits or hangs for other editions, is correct for fa2018."""
    file = tmp_path / "one-edition.h"
    text = (TEMPLATES / "new-forward.h").read_text()
    ends = """{
  if (x.size(2) == 28) abort();
  if (x.size(2) == 64) exit(3);
  if (x.size(2) == 70 || x.size(2) == 48)
    for (volatile int on = 1; on;) {
    }
"""
    start = text.index("{", text.index(" forward("))
    file.write_text("#include <cstdlib>\n" + text[:start] + ends + text[start + 1 :])
    found = kernel_loading.check(file, timeout=40)
    codes = {one.what: one.code for one in found.tried}
    assert codes["fa2017, layer 1"] == "crash" and codes["sp2018, layer 1"] == "exit"
    assert codes["fa2019, layer 1"] == codes["sp2019, layer 1"] == "time_limit"
    assert found.right and found.right_for == ("fa2018",)
    assert not kernel_loading.check(file, edition="fa2017").right
    assert kernel_loading.check(file, edition="fa2018").right


def test_errors_for_other_sizes_are_not_fatal(tmp_path):
    file = tmp_path / "conv.cpp"
    file.write_text((TEMPLATES / "conv.cpp").read_text().replace("{\n", "{\n  if (H == 13) return;\n", 1))
    found = kernel_loading.check(file)
    assert found.right and not found.wrong
    assert [one.code for one in found.tried if one.what == trials.OTHER and not one.right] == ["not_written"]
