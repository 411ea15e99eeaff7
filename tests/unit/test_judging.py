"""The judge of kernel files on the CPU: planted bugs have their codes, correct files none."""

import kernel_loading
import pytest
from planted_bugs import PLANTED, RIGHT, SHAPES, TEMPLATES, codes_of, path_of
from profiles import drawn, pick

from fashion_infer.errors import UsageError
from fashion_infer.judging import judge
from fashion_infer.judging.verdict import OTHER

pytestmark = pytest.mark.usefixtures("kernel_cache")


@pytest.mark.slow
@pytest.mark.parametrize("name", drawn(list(PLANTED), 4))
def test_planted_bugs_have_their_reasons(name):
    found = kernel_loading.check(path_of(name), shapes=SHAPES)
    codes = {one.code for one in found.shapes} - {""}
    assert not found.right and codes and codes <= set(codes_of(name)), found.sentence
    assert all(one.reason and one.precision == "incorrect" for one in found.wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", drawn(list(RIGHT), 3))
def test_correct_files(name):
    found = kernel_loading.check(path_of(name), shapes=SHAPES)
    assert found.right and not found.wrong, found.sentence
    assert found.precision == RIGHT[name]
    notes = {note.code for one in found.shapes for note in one.notes}
    assert notes == ({"leak"} if name == "leaks.cc" else set())


def test_a_template_on_all_layers():
    found = kernel_loading.check(TEMPLATES / "cpu-new-forward.cc")
    assert found.right and found.right_for == ("fa2020",) and not found.wrong and found.precision == "float32"
    assert [one.what for one in found.shapes].count(OTHER) == len(judge.OTHER_SHAPES)
    assert all(one.right and one.op_seconds > 0 and one.calls >= 10 and one.notes == () for one in found.shapes)
    # Every output of a call with many images was compared.
    assert max(one.shape.B for one in found.shapes) == judge.MANY


@pytest.mark.slow
def test_height_and_width_differ_in_some_shape():
    """H and W exchanged is correct on square layers, and the verdict says on which sizes it fails."""
    found = kernel_loading.check(path_of("height-for-width"))
    assert found.right and not found.wrong
    assert [one.shape[2] != one.shape[3] for one in found.shapes if not one.right] == [True]


@pytest.mark.slow
def test_one_edition_alone(tmp_path):
    """A kernel that is wrong, or crashes, for other editions is correct for the one; each layer has its process."""
    text = (TEMPLATES / "new-forward.h").read_text()
    start = text.index("{", text.index(" forward("))
    file = tmp_path / "one-edition.h"
    ends = "{\n  if (x.size(2) == 28) abort();\n  if (x.size(2) == 64) exit(3);\n  if (x.size(2) > 64) return;\n"
    file.write_text("#include <cstdlib>\n" + text[:start] + ends + text[start + 1 :])
    found = kernel_loading.check(file)
    codes = {one.what: one.code for one in found.layers}
    assert (codes["fa2017, layer 1"], codes["sp2018, layer 1"]) == ("crash", "exit")
    assert found.right and found.right_for == ("sp2019",)
    assert not kernel_loading.check(file, edition="fa2017").right


@pytest.mark.slow
def test_what_only_several_layers_show(tmp_path):
    fixed = kernel_loading.check(path_of("fixed-sizes"), edition="sp2018")
    assert [one.right for one in fixed.shapes] == [True, False]
    file = tmp_path / "conv.cpp"
    template = (TEMPLATES / "conv.cpp").read_text()
    file.write_text(template.replace("{\n", "{\n  if (H == 13) return;\n", 1))
    found = kernel_loading.check(file, shapes=[(1, 13, 5, 4), (1, 28, 6, 5)])
    assert [one.code for one in found.shapes] == ["not_written", ""] and not found.right


@pytest.mark.parametrize("name", ["doubles", "output-first", "weights-first", "not-extern-c"])
def test_wrong_parameters_are_refused(name):
    with pytest.raises(UsageError):
        kernel_loading.check(path_of(name))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(pick(1, 3)))
def test_a_race_is_found_each_time(seed):
    found = kernel_loading.check(path_of("race-over-taps"), shapes=[(1, 28, 50, 5)])
    assert [one.code for one in found.shapes] == ["race"]


@pytest.mark.slow
def test_sums_in_varying_order_are_correct(tmp_path):
    """Threads that add with atomics, in an order that varies, are correct: their errors are within the bound."""
    file = tmp_path / "reduces.cpp"
    text = path_of("race-over-taps").read_text().replace("loops.h", str(path_of("loops.h")))
    file.write_text(text.replace("++w) y[", "++w)\n#pragma omp atomic\n                y["))
    assert kernel_loading.check(file, shapes=[(2, 13, 8, 4)]).right


@pytest.mark.slow
def test_a_call_that_hangs_is_stopped(tmp_path):
    found = kernel_loading.check(path_of("hangs"), shapes=SHAPES[:1], timeout=1)
    assert {one.code for one in found.shapes} <= {"hangs", "time_limit"} and not found.right
    file = tmp_path / "conv.cpp"
    text = (TEMPLATES / "conv.cpp").read_text()
    file.write_text(text.replace("{\n", "{\n  for (volatile bool forever = B > 200; forever;) {}\n", 1))
    (shape,) = kernel_loading.check(file, shapes=SHAPES[:1]).shapes
    assert (shape.code, shape.shape.B) == ("hangs", judge.MANY)
