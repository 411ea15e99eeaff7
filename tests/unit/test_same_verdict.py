"""Same file, same verdict: all commands that judge a kernel file agree on it, and give the same reason."""

import json
import subprocess
import sys
import warnings

import kernel_loading
import planted_bugs
import pytest
from planted_bugs import PLANTED, RIGHT, path_of
from profiles import drawn

import fashion_infer
from fashion_infer.errors import CheckFailed

EDITION = "fa2017"  # one layer of one channel, which shows all faults but those of several channels
CHANNELS = ("first-channel", "input-without-channel", "last-channel", "unrolled-order", "weights-channels-last",
            "weights-swapped", "weights-without-channel", "buffer-of-first-size", "fixed-sizes")  # fmt: skip
FAST = ("keeps-first-pointer", "buffer-of-first-size", "overlapping-memcpy", "exits", "sum-starts-at-one",
        "one-output-of-image-51", "copies-images-from-200-on", "tap-missing", "one-nan", "race-over-taps", "crashes",
        "dynamic-schedule", "half", "leaks.cc")  # fmt: skip

# `grade` does not run the build with sanitizers, because it would run outside of the box: it accepts the first of these
# files, and gives the others another reason.
UNSANITIZED = ("overlapping-memcpy", "used-after-free", "buffer-of-first-size", "array-without-value")
pytestmark = pytest.mark.usefixtures("kernel_cache")


def by_infer(path, edition, n):
    """Return whether a run of the network says correct, the precision class or "incorrect", and all that it says."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fashion_infer.infer(edition=edition, n=n, data="synthetic", kernel=str(path)).submission
    except CheckFailed as error:  # harmful
        return False, "incorrect", str(error)
    said = " ".join(one.reason for one in found.shapes)
    return found.right, found.precision if not found.wrong else "incorrect", said


def by_command(*arguments):
    words = [sys.executable, "-m", "fashion_infer", *map(str, arguments)]
    end = subprocess.run(words, capture_output=True, text=True, timeout=500)
    assert end.returncode in (0, 1) and "Traceback" not in end.stderr, end.stderr
    return end.returncode == 0, " ".join((end.stdout + end.stderr).split())


def in_json(said):
    return json.loads(said[said.index("{") : said.rindex("}") + 1])


def judged(name, edition):
    """Return the verdict of `check`: whether it is correct, its class, and the reasons of its incorrect layers."""
    found = kernel_loading.check(path_of(name), edition=edition)
    allowed = set(planted_bugs.codes_of(name)) if name in PLANTED else set()
    assert {one.code for one in found.wrong} <= allowed, found.sentence
    return found.right, found.precision if found.right else "incorrect", {one.reason for one in found.wrong}


@pytest.mark.parametrize("name", drawn(FAST, 1))
def test_check_and_infer_agree(name):
    edition = "sp2018" if name in CHANNELS else EDITION
    right, precision, reasons = judged(name, edition)
    assert right == (name in RIGHT)
    *found, said = by_infer(path_of(name), edition, 300)
    assert found == [right, precision]
    assert not reasons or any(reason in said for reason in reasons)


@pytest.mark.slow
@pytest.mark.parametrize("name", drawn([*PLANTED, *RIGHT], 1))
def test_all_commands_agree(name):
    edition, path = "sp2018" if name in CHANNELS else EDITION, path_of(name)
    right, precision, reasons = judged(name, edition)
    n = 100 if edition == "sp2018" else 1000
    bench = ("--against", "none", "--batch", "40", "--repeat", "1", "--json")
    found = {
        "kernel check": by_command("kernel", "check", path, "--edition", edition),
        "run": by_command("run", "--data", "synthetic", "--edition", edition, "--n", n, "--kernel", path),
        "bench conv": by_command("bench", "conv", "--edition", edition, *bench, "--kernels", path),
    }
    by_python = by_infer(path, edition, n)
    found["infer"] = (by_python[0], by_python[2])
    assert {command: each[0] for command, each in found.items()} == dict.fromkeys(found, right)
    if not right:
        missing = [command for command, (_, said) in found.items() if not any(reason in said for reason in reasons)]
        assert not missing, {command: found[command][1] for command in missing}
    assert by_python[1] == precision
    measured = in_json(found["bench conv"][1])
    rows = [row for case in measured["cases"] for row in case["rows"] if row.get("file")]
    assert {row["precision"] for row in rows} >= {precision} and any(row["status"] == "wrong" for row in rows) != right


@pytest.mark.slow
@pytest.mark.parametrize("name", drawn([name for name in [*PLANTED, *RIGHT] if name not in UNSANITIZED], 1))
def test_grade_agrees(name):
    edition = "sp2018" if name in CHANNELS else EDITION
    right, _, _ = judged(name, edition)
    words = ("--unsandboxed", "--edition", edition, "--backend", "cpu", "--n", 100, "--json")
    _, said = by_command("grade", path_of(name), *words)
    found = in_json(said)
    refused = [each for each in found["findings"] if each["follows"] == "refused"]
    if RIGHT.get(name, "float32") != "float32":  # the default rubrics ask for float32
        assert {each["code"] for each in refused} == {"less_precise"}
        return
    assert (found["status"] == "judged" and not refused) == right, said
    assert right or {each["code"] for each in refused} <= {*planted_bugs.codes_of(name), "build"}, refused
