"""Rubrics, the check of whole outputs, verdicts in every format, and the command `grade`."""

import contextlib
import csv
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import planted_cpu
import pytest
from attacks.verdicts import LAYERS, on_cpu
from hypothesis import example, given, settings
from hypothesis import strategies as st
from planted_bugs import path_of
from profiles import drawn, examples, pick

from fashion_infer.checkpoints import editions
from fashion_infer.errors import DataError, UsageError
from fashion_infer.grading import grade, marks, results, rubric, verdict
from fashion_infer.grading.referee import Observed, runs, samples, session
from fashion_infer.grading.referee.findings import Finding
from fashion_infer.grading.sandbox import Broken, available, processes
from fashion_infer.judging import reasons
from fashion_infer.judging.inputs import Seed

ROOT = Path(__file__).resolve().parents[2]
SMALL = str(ROOT / "tests" / "attacks" / "rubric.toml")
HONEST = ROOT / "fashion_infer" / "kernel_files" / "templates" / "conv.cpp"


@pytest.mark.parametrize("edition", [*editions.EDITIONS, "sp2023"])
def test_default_rubrics(edition):
    found = rubric.default(edition)
    assert found.edition == edition and found.show.diagnosis
    for backend in ("cpu", "gpu"):
        kinds = [check.kind for check in found.checks_of(backend)]
        assert kinds == ["build", "right", "time"] and sum(c.points for c in found.checks_of(backend)) == 100
    assert rubric.of_dict(json.loads(json.dumps(rubric.as_dict(found)))) == found
    # The default rubric's limits are those of a rubric without [limits].
    assert rubric.parse(rubric.default_text(edition).partition("[limits]")[0], "short").limits == found.limits
    for check in [check for check in found.checks if check.kind == "time"]:
        (full, _), (none, _) = check.steps
        shares = [check.share(ms) for ms in (0, full, (full + none) / 2, none, none + 1)]
        assert shares == pytest.approx([1, 1, 0.5, 0, 0])
        (fewer,) = [one for one in rubric.changed(found, None, 100).checks if one[:4] == check[:4]]
        assert fewer.n == (100,) and fewer.steps[0][0] == pytest.approx(full / 100)


def test_a_rubric_with_its_own_layers():
    text = rubric.default_text("fa2017").replace('edition = "fa2017"', "") + LAYERS
    found = rubric.parse(text, "own")
    assert rubric.of_dict(json.loads(json.dumps(rubric.as_dict(found)))) == found and found.edition == ""
    shapes = [tuple(one.shape) for one in samples.cases("", [1, 5], found.layers)]
    assert shapes == [(1, 3, 32, 32, 64, 3), (5, 3, 32, 32, 64, 3), (1, 2, 9, 9, 4, 9), (2, 2, 9, 9, 4, 9)]
    for old, new in (
        ("input_size = 32", "input_size = 2"),
        ("filters = 64", "filters = 0"),
        ("filters = 4", ""),
        ("channels = 3", "channels = true"),
        ("images = 2", "images = 0"),
        ("[[layer]]", 'edition = "fa2017"\n[[layer]]'),
        ("channels = 2", "chanels = 2"),
        ("channels = 3\ninput_size = 32", "channels = 4096\ninput_size = 4096"),
    ):
        assert old in text
        with pytest.raises(UsageError):
            rubric.parse(text.replace(old, new), "own")


@pytest.mark.slow
@pytest.mark.skipif(not available().isolated, reason="no sandbox on this machine")
def test_grading_and_checking_with_own_layers(invoke, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    own = tmp_path / "rubric.toml"
    own.write_text(re.sub("edition = .*", "", Path(SMALL).read_text()) + LAYERS)
    code, _, err = invoke("grade", HONEST, "--rubric", own, "--out", tmp_path / "out")
    found = json.loads((tmp_path / "out" / "verdict.json").read_text())
    assert code == 0 and found["points"] == 100 and "edition" not in found["rubric"], err
    assert {tuple(one["case"]["shape"][1:]) for one in found["samples"]} == {(3, 32, 32, 64, 3), (2, 9, 9, 4, 9)}
    assert invoke("kernel", "check", HONEST, "--layer", "3,32,64,3")[0] == 0
    assert invoke("kernel", "check", path_of("boundary"), "--layer", "3,32,64,3", "--layer", "2,9,4,3")[0] == 1
    for layer in ("3,32,64", "3,2,64,3", "a,b,c,d", "0,3,3,3"):
        assert invoke("kernel", "check", HONEST, "--layer", layer)[0] == 2


@pytest.mark.slow
@pytest.mark.skipif(not available().isolated, reason="no sandbox on this machine")
def test_a_rubric_allows_what_the_compiler_says(tmp_path, monkeypatch):
    """A correct submission gets findings where the rubric allows them; they change nothing else."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    texts = {
        "slow.cpp": planted_cpu.SLOW["double"],
        "wrong.cpp": planted_cpu.WRONG["stale_output"],
        "\x07ödd <name>.cpp": planted_cpu.SLOW["alias"],
        "large.cpp": planted_cpu.LARGE,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    sources = tuple(str(tmp_path / name) for name in texts)
    small = rubric.parse(Path(SMALL).read_text(), "small")._replace(backend="cpu", timing=rubric.Timing(seconds=0.1))
    allowed = small._replace(show=small.show._replace(explain=True))
    found = list(grade.grade(grade.GradeRequest(sources, allowed)))
    assert [one.marks.points for one in found] == [100, 10, 100, 100]
    documents = [json.loads(verdict.as_json(one)) for one in found]
    (without,) = grade.grade(grade.GradeRequest(sources[:1], small))
    assert without.marks.points == 100 and "explain" not in verdict.as_dict(without) and not without.explained
    slow = documents[0]["explain"][0]
    assert (slow["code"], slow["line"]) == ("double", planted_cpu.marked(texts["slow.cpp"])[0])
    assert slow["source"] == texts["slow.cpp"].splitlines()[slow["line"] - 1].strip() and slow["evidence"]
    assert documents[1]["explain"] == documents[3]["explain"] == []  # an incorrect file, and too large an assembly
    odd = documents[2]["explain"]
    assert [one["code"] for one in odd] == ["alias"] and all(one["what"].isprintable() for one in odd)
    assert len(json.dumps([one["explain"] for one in documents])) < 20_000


CONV2D = "import torch\n\ndef conv_forward(x, k):\n    return torch.nn.functional.conv2d(x, k) + 0.0\n"
PYTHON = {
    # KernelBot's first form; its types are in a module that only KernelBot has.
    "kernelbot": "from task import input_t\nimport torch\n\n"
    "def custom_kernel(data: input_t):\n    x, k = data\n    return torch.nn.functional.conv2d(x, k)\n",
    "leetgpu": "import torch\n\ndef solve(image, taps, output, height, width, rows, columns):\n"
    "    output[...] = torch.nn.functional.conv2d(image[None, None], taps[None, None])[0, 0]\n",
    "imports": "from impl import conv_forward\n",
    "compiles": CONV2D.replace("\n\n", "\n\n@torch.compile\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", drawn(list(PYTHON)[: pick(3, 4)], 1))
@pytest.mark.skipif(available().lacking({"landlock": 1, "seccomp": 1, "rlimits": 1, "stopped": 1}), reason="no sandbox")
def test_files_in_python_are_ranked(name, tmp_path, monkeypatch):
    """PyTorch's compiler starts processes, which is possible in the calls that do not count."""
    pytest.importorskip("torch")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "submission.py").write_text(PYTHON[name])
    (tmp_path / "team" / "impl.py").write_text(CONV2D if name == "imports" else "")
    small = rubric.parse(Path(SMALL).read_text(), "small")
    asked = small._replace(
        edition="", layers=(rubric.RubricLayer(1, 9, 4, 3),), limits=rubric.RubricLimits(seconds=300)
    )
    (found,) = grade.grade(grade.GradeRequest((str(tmp_path / "team"),), asked))
    assert (found.findings, found.ranked, found.marks.points) == ((), True, 100), found.printed


TEXT = rubric.default_text("fa2017")
WRONGS = {
    "edition is missing": ('edition = "fa2017"', ""),
    "unknown edition": ('edition = "fa2017"', 'edition = "fa1999"'),
    "backend must be one of": ('backend = "auto"', 'backend = "tpu"'),
    "precision must be one of": ('precision = "float32"', "precision = 32"),
    "kind must be one of": ('kind = "build"', 'kind = "speed"'),
    "points must be a number": ("points = 10", 'points = "ten"'),
    "n must be a whole number": ("n = [100, 1000]", "n = [0]"),
    "needs n": ("n = [100, 1000]", ""),
    "steps must be pairs": ("[[0.72, 1.0], [2.2, 0.0]]", "[[100, 1.0], [60, 0.0]]"),
    "not TOML": ("[timing]", "[timing"),
    "timing.speed is not known": ("spread = 0.01", "speed = 0.01"),
    "limits.seconds must be a number": ("\nseconds = 120", "\nseconds = -1"),
    "true or false": ("times = true", 'times = "yes"'),
    "pionts is not known": ("points = 50", "pionts = 50"),
    "a rubric has 1 to": (TEXT, 'edition = "fa2017"\ncheck = []'),
}


@pytest.mark.parametrize("message", WRONGS)
def test_invalid_rubrics(message, tmp_path):
    old, new = WRONGS[message]
    assert old in TEXT
    (tmp_path / "rubric.toml").write_text(TEXT.replace(old, new))
    with pytest.raises(UsageError, match=message):
        rubric.read(str(tmp_path / "rubric.toml"))


@given(
    st.lists(st.floats(0.1, 1e4), min_size=2, max_size=5, unique=True).map(sorted),
    st.sampled_from(rubric.BETWEEN),
    st.floats(0, 2e4),
)
@settings(max_examples=examples(30))
def test_points_fall_as_time_rises(times, between, ms):
    shares = np.linspace(1, 0, len(times))
    check = rubric.RubricCheck("t", "time", 10, "any", (1,), tuple(zip(times, shares)), between)
    assert 0 <= check.share(ms * 1.1) <= check.share(ms) <= 1
    assert [check.share(time) for time in times] == pytest.approx(list(shares), abs=1e-9)
    if between == "stepped":
        assert check.share(ms) in {*shares, 0.0}


def session_hears(message, ask):
    talk = session.Session.__new__(session.Session)
    talk._channel, worker = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    talk._spins, talk._calls, talk._ancillary = False, 1, 0
    nothing = {name: lambda: None for name in ("watch", "ended", "allow_processes", "freeze")}
    talk._sandbox = SimpleNamespace(remaining=1.0, **nothing)
    with talk._channel, worker:
        worker.send(message)
        return ask(talk)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["loaded", "failed", "x"]), inner),
    max_leaves=6,
)


@settings(deadline=None)
@given(
    JSON.map(lambda value: json.dumps(value).encode())
    | st.binary(min_size=1, max_size=40)
    | st.sampled_from([b'{"loaded": 5}', b'{"loaded": {}}', b"[" * 50_000])
)
def test_any_description_from_a_worker_is_read_or_refused(message):
    plugin = SimpleNamespace(kind="plugin", path="k.so")
    with contextlib.suppress(Broken):
        assert session_hears(message, lambda talk: talk.load(plugin, False)) in (True, False)


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(["done", "0", "1", "-1", "1e400", "inf", "nan", "-0.5", "1e-9", "x", ""])
        | st.floats().map(str),
        max_size=8,
    )
)
@example(["done", "0", "0", "-inf", "1.0", "0", ""])
@example(["done", "0", "0", "1e-9", "nan", "0", ""])
@example(["done", "0", "0", "1e306", "1.0", "0", ""])
def test_times_of_a_worker_are_finite(fields):
    """Also in the milliseconds of a verdict."""
    with contextlib.suppress(Broken):
        called = session._called(" ".join(fields).encode(), 0, 0.5)
        assert abs(1e3 * called.op_seconds) < float("inf") and abs(1e3 * called.layer_seconds) < float("inf")


def test_a_closed_channel_is_a_broken_submission():
    def ask(talk):
        talk._channel.shutdown(socket.SHUT_RDWR)
        talk.load(SimpleNamespace(kind="plugin", path="k.so"), False)

    with pytest.raises(Broken):
        session_hears(b"x", ask)


def a_verdict(status="judged", found=(), printed="", failed=False, show=None):
    asked = rubric.parse(Path(SMALL).read_text(), "small")._replace(backend="cpu")
    asked = asked if show is None else asked._replace(show=show)
    ranked = status == "judged" and not found
    case = {n: samples.cases("fa2017", [n])[0] for n in (1, 3, 20)}
    calls = [samples.Sample(case[n], 1, 0, n == 20, 0.02, 0.02, 0.019, "float32") for n in case for _ in range(3)]
    seen = Observed(tuple(calls), tuple(found), {"seccomp": True}, printed, {"layer 1, n = 20": 0.1})
    earned = marks.of(asked, seen) if status == "judged" else marks.nothing(asked)
    reason = "" if status == "judged" else "it says why"
    return verdict.GradeVerdict(
        "team <1> &\n\x00co", "team1", status, reason, "ab" * 32, "conv.cpp", "c-cpu", "cpu", asked, Seed(7), ranked,
        {"available": "all", "in_force": {}, "bubblewrap": True}, tuple(found), earned, seen.samples, seen.fill_ms,
        printed, 1.0, 2.0, {"cpu": "one"}, verdict.now(),
    )  # fmt: skip


BAD = (
    Finding("race", "layer 1, n = 3", "calls differ", "y[0,0,0,0] = 1 instead of 2"),
    Finding("clocks", "layer 1, n = 20", "says 0 ms"),
)
VERDICTS = {
    "full": a_verdict(),
    "wrong": a_verdict(found=BAD, printed="\x1b[31mred\x00 <b>&]]>\ud800"),
    "refused": a_verdict("refused"),
    "failed": a_verdict("failed"),
}
SCORES = {"full": 100, "wrong": 10, "refused": 0, "failed": 0}


@pytest.mark.parametrize("name", VERDICTS)
def test_text_has_points_and_advice(name):
    text = results.written(VERDICTS[name], "text")
    assert all(line.isprintable() for line in text.split("\n"))  # control characters from a submission are escaped
    assert f"co: {SCORES[name]} of 100 points" in text.splitlines()[0]  # a name cannot forge a line
    if name == "wrong":
        assert BAD[0].text in text and reasons.TABLE["clocks"].remedy in text and "not ranked" in text
    assert ("it says why" in text) == (name in ("refused", "failed"))


@pytest.mark.parametrize("name", VERDICTS)
def test_gradescopes_results_have_its_fields(name):
    found = json.loads(results.written(VERDICTS[name], "gradescope"))
    fields = "score execution_time output visibility stdout_visibility tests extra_data leaderboard"
    assert set(found) <= set(fields.split())
    assert found["score"] == SCORES[name] == sum(test["score"] for test in found["tests"])
    visible = ("hidden", "after_due_date", "after_published", "visible")
    assert found["visibility"] in visible and found["stdout_visibility"] in visible
    for test in found["tests"]:
        fields = "score max_score status name number output tags visibility extra_data"
        assert set(test) <= set(fields.split())
        assert 0 <= test["score"] <= test["max_score"] and test["status"] in ("passed", "failed")
        assert isinstance(test["number"], str) and isinstance(test["name"], str) and isinstance(test["tags"], list)
    assert ("leaderboard" in found) == (name == "full")
    for line in found.get("leaderboard", ()):
        assert set(line) == {"name", "value", "order"} and line["order"] in ("asc", "desc") and line["value"] == 20


@pytest.mark.parametrize("name", VERDICTS)
def test_prairielearns_results_have_its_fields(name):
    found = json.loads(results.written(VERDICTS[name], "prairielearn"))
    assert found["gradable"] == (name != "failed") and isinstance(found["message"], str)
    if name == "failed":
        assert isinstance(found["format_errors"], list) and "it says why" in found["message"]
        return
    assert found["score"] == SCORES[name] / 100 and isinstance(found["output"], str)
    for test in found["tests"]:
        assert set(test) == {"name", "description", "points", "max_points", "message", "output"}


@pytest.mark.parametrize("name", VERDICTS)
def test_junits_xml_has_consistent_counts(name):
    root = ElementTree.fromstring(results.written(VERDICTS[name], "junit").encode("utf-8"))
    (suite,) = root.findall("testsuite")
    assert root.tag == "testsuites"
    cases = suite.findall("testcase")
    assert int(suite.get("tests")) == len(cases) == 3
    for what, tag in (("failures", "failure"), ("errors", "error")):
        assert int(suite.get(what)) == len(suite.findall(f"testcase/{tag}"))
    assert int(suite.get("errors")) == (3 if name == "failed" else 0)
    assert int(suite.get("failures")) == {"full": 0, "wrong": 2, "refused": 3, "failed": 0}[name]
    assert all(case.get("name") and case.get("classname") and float(case.get("time")) >= 0 for case in cases)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp"))


def test_results_hide_what_the_rubric_hides():
    nothing = a_verdict(found=BAD, printed="a secret", show=rubric.Show(False, False, False, False))
    for form in ("gradescope", "prairielearn", "junit"):
        hidden, shown = results.written(nothing, form), results.written(VERDICTS["wrong"], form)
        assert "differ" not in hidden and "secret" not in hidden and "ms" not in re.sub(r"name=.*", "", hidden)
        assert "differ" in shown
    assert "leaderboard" not in results.written(a_verdict(show=rubric.Show(leaderboard=False)), "gradescope")


def test_names_of_result_folders(tmp_path):
    names = results._names(["-rf", ".hidden", "a/team", "b/team", "a b;c"])
    assert list(names.values()) == ["rf", "hidden", "team", "team-2", "a_b_c"]
    longest = results._names([f"{folder}/{255 // len(letter.encode()) * letter}" for letter in "xé" for folder in "ab"])
    assert len(set(longest.values())) == 4 and all(len(name.encode()) < 256 for name in longest.values())
    with pytest.raises(UsageError):
        results._names(["team", "Marks.csv"])
    assert results._names(["marks.csv"]) == {"marks.csv": "marks.csv"}  # a single submission gets no folder


def test_work_outside_op_time_is_graded_by_layer_time():
    inside, outside = a_verdict(), a_verdict(found=[Finding("work_before", "layer 1, n = 3", "seen")])
    assert inside.marks.op_ms == 20 and "Layer Time" not in inside.marks.marks[2].message
    assert "(Layer Time)" in outside.marks.marks[2].message and outside.marks.points == 100


@pytest.mark.parametrize(
    "attempts, earned",
    [([[20] * 8], 20), ([[10, 30] * 4, [20] * 8], 20), ([[10, 30] * 4, [10, 30] * 4], 10), ([[15], [25]], 15)],
)
def test_times_that_a_repeat_may_not_confirm_earn_nothing(attempts, earned, monkeypatch):
    """Noisy times are measured again. If they are as noisy then, the slower quartile earns the points."""
    (case,) = samples.cases("", [1], [rubric.RubricLayer(1, 9, 4, 3)])
    check = rubric.RubricCheck("fast", "time", 30, "any", (1,), ((10, 1.0), (40, 0.0)))
    asked = rubric.Rubric("", "cpu", "float32", (check,), layers=(rubric.RubricLayer(1, 9, 4, 3),))
    referee, waiting = runs.Referee(None, asked, Seed(1), None), list(attempts)

    def timed(to_time):
        times = [ms / 1e3 for ms in waiting.pop(0)]
        referee._notes.samples += [samples.Sample(case, 1, 1, True, s, s, s, "float32") for s in times]

    monkeypatch.setattr(referee, "_time_once", timed)
    referee._time([case])
    found = marks.of(asked, Observed(tuple(referee._notes.samples), (), {}, "", {}))
    assert not waiting and found.op_ms == pytest.approx(20) and found.points == pytest.approx(earned)


def test_only_verdicts_are_read(tmp_path):
    path = tmp_path / "verdict.json"
    path.write_text(results.written(VERDICTS["full"], "json"))
    again = verdict.read(str(path))
    one = VERDICTS["full"]
    assert (again.source, again.digest, again.seed, again.rubric) == (one.source, one.digest, one.seed, one.rubric)
    assert again.differences(one) == []
    assert [line.split(":")[0] for line in again.differences(VERDICTS["wrong"])] == ["right", "fast"]
    for broken in ("", "{}", "[]", path.read_text()[:200]):  # changed values are the next test's
        path.write_text(broken)
        with pytest.raises(DataError):
            verdict.read(str(path))


_ODD = st.sampled_from([None, 5, -1, True, "", "-1", "a" * 40, [], [5], {}, 1e308, float("inf"), float("nan"), 10**400,
                        {"a": {"b": 1}}, [[1]], "x\0y", "\ud800", "line\nline"])  # fmt: skip


def _places(value, path=()):
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from _places(value[key], (*path, key))


DOCUMENT = json.loads(verdict.as_json(VERDICTS["full"]))
PLACES = [one for one in _places(DOCUMENT) if one[0] in ("rubric", "marks", "submission", "seed", "backend", "kind")]


@settings(max_examples=examples(800))
@given(st.sampled_from(PLACES), _ODD)
def test_a_verdict_with_a_changed_value_is_valid_or_refused(place, value):
    document = json.loads(json.dumps(DOCUMENT))
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "verdict.json"
        path.write_text(json.dumps(document))
        try:
            again = verdict.read(str(path))
        except DataError as error:
            assert "\n" not in str(error)
            return
    assert isinstance(again.source, str) and re.fullmatch("([0-9a-f]{64})?", again.digest)
    assert again.seed.value < 1 << 128 and again.backend in ("cpu", "gpu")
    assert rubric.of_dict(json.loads(json.dumps(rubric.as_dict(again.rubric), allow_nan=False))) == again.rubric
    assert again.rubric.limits.seconds <= 86_400 and again.rubric.timing.seconds <= 86_400
    again.differences(VERDICTS["wrong"])


@pytest.mark.parametrize("text", ["[" * 100_000, "a = " + "[" * 100_000, "a = " + "9" * 5000, "\xff", "\0"])
def test_invalid_verdicts_and_rubrics_are_one_line_errors(text, tmp_path, invoke):
    path = tmp_path / "file"
    path.write_bytes(text.encode("latin-1"))
    for arguments, expected in ((["--repeat", path], 3), ([HONEST, "--rubric", path], 2)):
        code, _, err = invoke("grade", *arguments)
        assert code == expected and err.count("\n") == 1, err


def test_invalid_arguments_are_refused_first(invoke, tmp_path):
    assert invoke("grade")[0] == 2
    for arguments, code, message in (
        (["none.cpp", "--out", tmp_path / "a" / "b"], 2, "there is no submission none.cpp"),
        ([HONEST, "--edition", "fa1999"], 2, "unknown edition"),
        ([HONEST, "--rubric", tmp_path / "none.toml"], 2, "cannot read the rubric"),
        ([HONEST, "--require", "speed"], 2, "no check of that name"),
        ([HONEST, "--out", HONEST], 2, "cannot create the folder"),
        ([HONEST, HONEST, "--for", "junit"], 2, "name a folder for them, --out DIR"),
        ([HONEST, HONEST, "--json"], 2, "--json prints the verdict on one submission"),
        (["--repeat", tmp_path / "none.json"], 3, "cannot read the verdict"),
    ):
        found, out, err = invoke("grade", *arguments)
        assert found == code and message in err and not out and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_print_rubric_prints_the_default_rubric(invoke):
    code, out, _ = invoke("grade", "--print-rubric", "--edition", "fa2020")
    assert code == 0 and rubric.parse(out, "printed") == rubric.default("fa2020")


@pytest.mark.skipif(not available().isolated, reason="no sandbox on this machine")
def test_a_folder_of_submissions_from_the_command_line(invoke, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    team = tmp_path / "team"
    team.mkdir()
    (team / "conv.cpp").write_bytes(HONEST.read_bytes())
    wrong, nothing = path_of(drawn(["boundary", "few-images", "zero"], 1)[0]), tmp_path / "notes.txt"
    nothing.write_text("no kernel")
    out = tmp_path / "results"
    code, said, err = invoke("grade", team, wrong, nothing, "--rubric", SMALL, "--out", out, "--for", "junit")
    assert code == 0 and not said, err
    folders = {path.parent.name: json.loads(path.read_text()) for path in out.glob("*/verdict.json")}
    assert {name: found["points"] for name, found in folders.items()} == {"team": 100, wrong.name: 10, "notes.txt": 0}
    assert folders["team"]["ranked"] and not folders[wrong.name]["ranked"]
    assert folders["team"]["sandbox"]["in_force"]["seccomp"] and folders["team"]["samples"]
    assert sorted(path.name for path in (out / "team").iterdir()) == ["junit.xml", "verdict.json"]
    # A submission and its build go with its verdict.
    assert [path.name for path in (tmp_path / "cache").rglob("*") if not path.is_dir()] == []

    rows = list(csv.DictReader((out / "marks.csv").open()))
    assert [(row["submission"], row["points"], row["right"]) for row in rows] == [
        ("team", "100", "50"),
        (wrong.name, "10", "0"),
        ("notes.txt", "0", "0"),
    ]
    assert all(row["reason"] for row in rows)
    table = err.splitlines()[-4:-1]  # a line per submission, and then the path of marks.csv
    assert ["team" in table[0], wrong.name in table[1], "notes.txt" in table[2]] == [True] * 3
    with results.Folder.made(str(tmp_path / "failed"), [str(team)]) as folder:
        folder.summary([{**folders["team"], "status": "failed"}])
    (row,) = csv.DictReader((tmp_path / "failed" / "marks.csv").open())
    assert (row["status"], row["points"], row["right"], row["out_of"]) == ("failed", "", "", "100")
    again = ("grade", team, wrong, nothing, "--rubric", SMALL, "--out", out, "--resume")
    (out / wrong.name / "verdict.json").write_text("{}")
    before = (out / "team" / "verdict.json").read_text()
    assert invoke(*again)[0] == 0 and (out / "team" / "verdict.json").read_text() == before
    (team / "conv.cpp").write_bytes(b"\n" + HONEST.read_bytes())  # the submission has changed
    code, _, err = invoke(*again)
    assert code == 0 and "1 of 3" in err and json.loads((out / "team" / "verdict.json").read_text())["points"] == 100
    assert (out / "team" / "verdict.json").read_text() != before
    assert json.loads((out / wrong.name / "verdict.json").read_text())["points"] == 10
    assert list(csv.DictReader((out / "marks.csv").open()))[1]["points"] == "10"
    code, _, err = invoke(*again, "--require", "right", "--require", "builds")
    assert code == 1 and "required checks failed: " in err and f"{wrong.name}: right" in err
    assert invoke("grade", team, "--resume", "--out", out)[0] == 2

    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    code, said, _ = invoke("grade", ".", nothing, "--rubric", SMALL, "--out", tmp_path / "refused")
    assert code == 0 and said.startswith("empty: 0 of")
    assert {path.name for path in (tmp_path / "refused").iterdir()} == {"empty", "notes.txt", "marks.csv"}

    code, said, err = invoke("grade", "--repeat", out / "team" / "verdict.json")
    assert code == 0 and "100 of 100" in said and "same result as in the verdict" in err
    (team / "conv.cpp").write_bytes(HONEST.read_bytes() + b"\n")
    code, _, err = invoke("grade", "--repeat", out / "team" / "verdict.json")
    assert code == 2 and "is not the submission of the verdict" in err


@pytest.mark.skipif(not available().isolated, reason="no sandbox on this machine")
def test_closing_a_grading_ends_all_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))
    asked = rubric.read(SMALL)
    endless = on_cpu()["never-returns.cpp"]
    sources = (str(tmp_path / "empty"), str(endless), str(endless), str(HONEST))
    Path(sources[0]).mkdir()
    start = time.monotonic()
    class_ = grade.grade(grade.GradeRequest(sources, asked._replace(limits=asked.limits._replace(seconds=300))))
    assert next(class_).status == "refused"
    class_.close()
    assert time.monotonic() - start < 150 and not processes._running


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 4))
def test_turns_run_one_timed_or_several_others(who, count):
    turns, inside, most = runs.Turns(count), [], []

    def one(alone):
        with turns.alone() if alone else turns.beside():
            inside.append(alone)
            most.append((len(inside), any(inside)))
            inside.remove(alone)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(one, who))
    assert len(most) == len(who) and all(number <= (1 if alone else count) for number, alone in most)


EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*") if path.is_file())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_examples_use_existing_options(path, tmp_path):
    from fashion_infer.cli import grade

    text = path.read_text()
    known = {name for parameter in grade.command.params for name in parameter.opts}
    for line in re.sub(r"\\\n *", "", text).splitlines():
        if "fashion-infer grade " in line and not line.startswith("#"):
            used = set(re.findall(r" (--[a-z-]+)", line.partition("fashion-infer grade")[2]))
            assert used <= known, line
            assert {"builds", "right"} >= set(re.findall(r"--require (\w+)", line))
    if path.suffix == ".json":
        options = json.loads(text)["externalGradingOptions"]
        assert options["entrypoint"].endswith("/grade.sh") and options["enabled"]
    if text.startswith("#!"):
        assert path.stat().st_mode & 0o111
        subprocess.run(["bash", "-n", str(path)], check=True)


@pytest.mark.skipif(not available().isolated, reason="no sandbox on this machine")
def test_gradescopes_script_writes_results(tmp_path):
    for name in ("submission", "source"):
        (tmp_path / name).mkdir()
    (tmp_path / "submission" / "conv.cpp").write_bytes(HONEST.read_bytes())
    (tmp_path / "source" / "rubric.toml").write_text(Path(SMALL).read_text())
    script = (ROOT / "examples" / "gradescope" / "run_autograder").read_text()
    script = script.replace("/autograder", str(tmp_path))
    script = script.replace("/opt/fashion-infer/bin/fashion-infer", f"{sys.executable} -m fashion_infer")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "results" / "results.json").read_text())
    assert found["score"] == 100 and found["leaderboard"]
