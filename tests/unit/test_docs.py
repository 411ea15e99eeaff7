"""The pages agree with the repository: links, paths, the ladder's table and pictures, heads of kernel files, rooms."""

import json
import re
import runpy
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import click
import pytest
import reference

from fashion_infer.cli.main import cli
from fashion_infer.kernel_files import formats, paths

ROOT = Path(__file__).resolve().parents[2]
OPS = ROOT / "custom_ops"
LADDER = OPS / "conv" / "cuda"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "models").glob("*.md"), *OPS.rglob("*.md")])
KERNEL_FILES = sorted(
    [*LADDER.rglob("*.cu"), *(OPS / "net" / "cuda" / "kernels").glob("*.cu"), *OPS.glob("conv/cpu/*.cpp")]
)
MOST_HEAD_LINES = 12
# Where a page may count a path from, beside its own folder.
BASES = [ROOT, OPS, LADDER, OPS / "net" / "cuda", OPS / "net" / "cuda" / "kernels"]
SUFFIXES = "cpp|cu|cuh|h|py|md|svg|png|json|cfg|h5|txt"


def name(path):
    return str(path.relative_to(ROOT))


def prose(page):
    """The page without its indented and fenced code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def anchors(page):
    """The names that GitHub gives to the page's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(page):
    """The cells of every line of a table."""
    lines = [line for line in prose(page).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def head(path):
    """The comment lines that a file begins with."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return lines[: next((index for index, line in enumerate(lines) if not line.startswith("//")), len(lines))]


def ladder():
    """The ladder page's rows: step -> cells."""
    return {int(cells[0]): cells for cells in rows(LADDER / "README.md") if cells[0].isdigit()}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_of_a_page_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{name(page)} links to {target}"
        assert not anchor or anchor in anchors(linked), f"{name(page)} links to {target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_file_that_a_page_names_exists(page):
    for path in re.findall(rf"`([\w./-]+/[\w.-]+\.(?:{SUFFIXES})|scripts/\w+)`", prose(page)):
        if "NAME" in path or path.startswith(("/", "report/")):  # a file of the reader's
            continue
        assert any((base / path).exists() for base in [page.parent, *BASES]), f"{name(page)} names {path}"


@pytest.mark.parametrize("path", KERNEL_FILES, ids=name)
def test_head_of_a_kernel_file_is_short_and_points_to_pages_that_exist(path):
    assert 0 < len(head(path)) <= MOST_HEAD_LINES
    for page in re.findall(r"docs/[\w-]+\.md", path.read_text(encoding="utf-8")):
        assert (ROOT / page).exists(), page


def test_every_step_has_a_row_and_a_file_and_a_picture():
    page, steps = (LADDER / "README.md").read_text(encoding="utf-8"), ladder()
    assert sorted(cells[2].strip("`") for cells in steps.values()) == sorted(reference.own_kernels("gpu"))
    assert sorted(steps) == list(range(1, len(steps) + 1))
    for step, cells in steps.items():
        target = re.search(r"\]\((.*?)\)", cells[1]).group(1)
        assert (LADDER / target).exists() and int(target[:2]) == step
        (picture,) = re.findall(rf"!\[Step {step}\]\((pictures/{step:02d}_\w+\.svg)\)", page)
        assert ElementTree.parse(LADDER / picture).getroot().get("viewBox"), picture
        assert f"\n## {step}. " in page
    assert len(list((LADDER / "pictures").iterdir())) == len(steps)


def test_times_of_the_ladder_are_the_measured_ones():
    section = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8").split("\n### fa2017 convolution 1")[1]
    section = section.split("\n### ")[0]
    row = r"^\| ([\w-]+)(?: \(auto\))? \| (\d+) \| [^|]* \| [\d.]+ \| ([\d.]+) \|"  # kernel, step, median
    found = re.findall(row, section, re.MULTILINE)
    measured = {kernel: float(ms) for kernel, _, ms in found}
    steps = {step: (cells[2].strip("`"), *cells[4:]) for step, cells in ladder().items()}
    # A kernel that was added since has no time until the page is measured again.
    assert {name for name, ms, _ in steps.values() if ms == "not measured"} == set(reference.own_kernels("gpu")) - set(
        measured
    )
    for step, (name, ms, ratio) in steps.items():
        if name in measured:
            assert float(ms) == measured[name]
            assert step == 1 or ratio == f"{measured[steps[step - 1][0]] / measured[name]:.2f}"


def test_tensor_core_files_draw_their_lanes_before_their_first_function():
    for path in (*LADDER.glob("12_tensor_core/*.cu"), *LADDER.glob("12_tensor_core/one_channel/*.cu")):
        text = path.read_text(encoding="utf-8")
        if "__global__" in text:
            first_function = re.search(r"^\S.*\) \{$", text, re.MULTILINE).start()
            assert 0 < text.find("// The lane map.") < first_function, path.name


def test_rooms_of_the_operator_library_include_what_the_map_says():
    said = {}
    for cells in rows(OPS / "README.md"):
        room = re.match(r"\[([\w/]+)/\]\(", cells[0])
        if room and len(cells) == 3:
            said[room.group(1)] = set(re.findall(r"`([\w/]+)`", cells[2]))
    # Of submission/ nothing is compiled into the library.
    inside = [path for path in OPS.rglob("*") if OPS / "submission" not in path.parents]
    sources = [path for path in inside if path.suffix in (".cpp", ".h", ".cu", ".cuh")]
    assert set(said) == {str(path.parent.relative_to(OPS)) for path in sources}
    for path in sources:
        room, text = str(path.parent.relative_to(OPS)), path.read_text(encoding="utf-8")
        for include in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            other = str(Path(include).parent)
            assert other in (".", room) or other in said[room], f"{name(path)} includes {include}"
        assert room == "mxnet" or "lib_api.h" not in text, name(path)


def test_presets_of_the_map_are_those_of_cmake():
    presets = json.loads((OPS / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]
    section = (OPS / "README.md").read_text(encoding="utf-8").split("\n| preset ")[1].split("\n\n")[0]
    said = {word for line in section.splitlines() for word in re.findall(r"`([\w-]+)`", line.split("|")[1])}
    assert said == {preset["name"] for preset in presets if not preset.get("hidden")}


COMMANDS = [
    (page.name, line.strip().partition("#")[0].partition(">")[0])
    for page in [ROOT / "README.md", ROOT / "docs" / "your-kernel.md", ROOT / "docs" / "profile.md"]
    for line in page.read_text(encoding="utf-8").splitlines()
    if re.match(r"    (\.venv/bin/)?fashion-infer ", line)
]


@pytest.mark.parametrize("page, line", COMMANDS)
def test_commands_of_a_page_have_these_options(page, line):
    command, words = cli, shlex.split(line)[1:]
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words.pop(0))
    command.make_context(command.name, words, resilient_parsing=True)


def test_formats_of_the_page_are_all():
    page = (ROOT / "docs" / "your-kernel.md").read_text(encoding="utf-8")
    table = "".join(line for line in page.splitlines() if line.startswith("| "))
    assert [entry.name for entry in formats.FORMATS if f"`{entry.name}`" not in table] == []
    suffixes = page.partition("the suffixes ")[2].partition("The format")[0]
    assert sorted(re.findall(r"`(\.\w+)`", suffixes)) == sorted(paths.SUFFIXES)


def test_the_first_page_is_short_and_begins_with_the_ladder():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(page.splitlines()) < 120
    assert page.index("](docs/ladder.svg)") < page.index("\n## ")


def test_times_on_pages_are_written_again(tmp_path):
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "README.md", LADDER / "README.md")]
    copies = tmp_path / "first", tmp_path / "ladder"
    times = medians("kernels", lambda case: case["edition"] == "fa2017")
    for page, copy in zip(pages, copies):
        other = page
        for name in ("fill", "cudnn fp32", "tensor-core"):
            other = other.replace(f"{times[name]:.3f}", "0.111")
        assert other.count("0.111") >= 3
        copy.write_text(other, encoding="utf-8")
    runpy.run_path(str(ROOT / "scripts" / "write_measured.py"))["write_times"](*copies)
    assert [copy.read_text(encoding="utf-8") for copy in copies] == pages


def test_page_of_the_kernels_is_of_the_measured_times(tmp_path):
    runpy.run_path(str(ROOT / "scripts" / "write_measured.py"))["write_kernels"](tmp_path)
    page = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    assert page == (tmp_path / "kernels.md").read_text(encoding="utf-8"), "run scripts/write_measured.py"
    drawn = (ROOT / "docs" / "kernels.svg").read_text(encoding="utf-8")  # whose places differ with matplotlib
    for case in json.loads((ROOT / "docs" / "kernels.json").read_text(encoding="utf-8"))["cases"]:
        for row in case["rows"]:
            assert row["kind"] == "limit" or row["median_ms"] is None or f">{row['median_ms']:.3g}<" in drawn


def test_picture_of_the_ladder_is_of_the_measured_times():
    drawn = runpy.run_path(str(ROOT / "scripts" / "draw_ladder.py"))["picture"]
    measured = json.loads((ROOT / "docs" / "kernels.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs" / "ladder.svg").read_text(encoding="utf-8") == drawn(measured), "run scripts/draw_ladder.py"


def medians(name, case):
    """Of a case of docs/NAME.json, by the contenders' names."""
    cases = json.loads((ROOT / "docs" / f"{name}.json").read_text(encoding="utf-8"))["cases"]
    return {row["name"]: row["median_ms"] for row in next(filter(case, cases))["rows"]}


def like(value, typed):
    return f"{value:.{len(typed.partition('.')[2])}f}" == typed


def test_first_page_has_the_measured_times_of_kernels():
    times = medians("kernels", lambda case: case["edition"] == "fa2017")
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"takes {times['fill']:.3f} ms, cuDNN {times['cudnn fp32']:.3f} ms." in page
    table = re.findall(r"^\| ([a-z\d-]+) \| [^|]+ \| ([\d.]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    for kernel, ms, ratio in table:
        assert like(times[kernel], ms) and like(times["cudnn fp32"] / times[kernel], ratio), kernel
    assert len(table) == 5


# As the first page calls the contenders.
NETWORKS = {
    "": "fashion-infer",
    "ONNX Runtime": "onnxruntime",
    "MXNet": "mxnet",
    "PyTorch": "torch",
    "compiled": "torch-compile",
}


@pytest.mark.parametrize(
    "name, where, row, precision",
    [
        ("results-gpu", "device", "NVIDIA H200, images", " fp32"),
        ("results-cpu", "memory", "two Zen 4 cores", ""),
        ("results-cpu-avx2", "memory", "two Zen 3 cores", ""),
    ],
)
def test_first_page_has_the_measured_times_of_networks(name, where, row, precision):
    times = medians(name, lambda case: (case["where"], case["batch"]) == (where, 10000))
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    cells = page.partition(f"| {row}")[2].partition("\n")[0].split("|")[1:3]
    typed = re.findall(r"([A-Za-z ]*?) ?\b([\d.]+)", ", ".join(cells))
    assert len(typed) == len(cells[1].split(",")) + 1
    for contender, ms in typed:
        contender = NETWORKS[contender.replace("ms", "").strip()]
        assert like(times[contender + (precision if contender != "fashion-infer" else "")], ms), contender
