"""With --json, stdout holds one JSON object, whose keys are those that docs/json.md names."""

import json
import re
from pathlib import Path

import pytest

from fashion_infer.kernel_files import formats

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
KEYS = {
    title: set(re.findall(r"`([^`]+)`", "\n".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))))
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
BENCH = "bench conv --backend cpu --batch 2 --against none --kernels auto"
CPU = "--data synthetic --backend cpu"
CASES = {
    "run": f"run --n 5 {CPU} --kernel ./talks.cpp",
    "doctor": "doctor",
    "bench conv": f"{BENCH} --repeat 3",
    "bench net": "bench net --backend cpu --batch 1 --against none --repeat 2",
    "compare": "compare a.json b.json",
    "kernel check": "kernel check wrong.cpp --edition fa2017",
    "profile": f"profile --n 5 {CPU} --turns 0 --no-ceilings",
    "kernel explain": "kernel explain talks.cpp --edition fa2017",
    "verify": f"verify --model ece408-low {CPU}",
    "grade": "grade talks.cpp --backend cpu --n 10 --unsandboxed",
}
SLOW = ("profile", "kernel explain", "verify", "grade")


def paths(value, known, path=""):
    """Yield the path of each key. Objects of which the page names no key are not searched."""
    for each in value if isinstance(value, list) else ():
        yield from paths(each, known, f"{path}[]")
    for key in value if isinstance(value, dict) else ():
        inside = f"{path}.{key}".lstrip(".")
        yield inside
        if any(one.startswith((f"{inside}.", f"{inside}[]")) for one in known):
            yield from paths(value[key], known, inside)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = formats.template("c-cpu")
    (tmp_path / "talks.cpp").write_text(text.replace("const int Ho", '__builtin_puts("{}");\n  const int Ho'))
    (tmp_path / "wrong.cpp").write_text(text.replace("h < Ho;", "h < Ho - 1;"))
    return tmp_path


def test_the_page_describes_each_command():
    assert set(KEYS) == {*CASES} - {"bench net"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in CASES])
def test_keys_are_those_of_the_page(name, run_program, folder):
    for repeat, file in enumerate(("a.json", "b.json") if name == "compare" else (), 1):
        (folder / file).write_text(run_program(*BENCH.split(), "--json", "--repeat", repeat).stdout)
    before = set(folder.iterdir())
    end = run_program(*CASES[name].split(), "--json")
    assert end.returncode == (name == "kernel check") and set(folder.iterdir()) == before, end.stderr
    known = KEYS[name.replace("net", "conv")]
    found = set(paths(json.loads(end.stdout, parse_constant=pytest.fail), known))
    assert found == known, (found - known, known - found)


@pytest.mark.parametrize("name", CASES)
def test_a_word_after_the_flag_is_no_output_file(name, invoke, folder):
    text = (folder / "talks.cpp").read_text()
    for words in (("--json=talks.cpp",), ("--json", "talks.cpp")):
        code, out, err = invoke(*CASES[name].replace(" --kernels auto", "").split(), *words)
        assert code == 2 and not out and err.count("\n") == 1
    assert (folder / "talks.cpp").read_text() == text and len(list(folder.iterdir())) == 2
