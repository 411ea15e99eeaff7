"""Pages of the documentation agree with the repository: links, paths, commands, rooms and tables from scripts."""

import json
import re
import runpy
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import reference
from command_line import parsed

ROOT = Path(__file__).resolve().parents[2]
OPS = ROOT / "custom_ops"
LADDER = OPS / "conv" / "cuda"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "models").glob("*.md"), *OPS.rglob("*.md")])
# Folders to which paths in a page may be relative, in addition to the page's own folder.
BASES = [ROOT, OPS, LADDER, OPS / "net" / "cuda", OPS / "net" / "cuda" / "kernels"]
SUFFIXES = "cpp|cu|cuh|h|py|md|svg|png|json|cfg|h5|txt"


def name(path):
    return str(path.relative_to(ROOT))


def prose(page):
    """Return a page's text without indented and fenced code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def anchors(page):
    """Return the anchor names that GitHub gives to a page's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(page):
    """Return the lines of a page's tables, as lists of cells."""
    lines = [line for line in prose(page).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_of_a_page_lead_to_files_and_headings(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{name(page)} links to {target}"
        assert not anchor or anchor in anchors(linked), f"{name(page)} links to {target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_that_a_page_names_exist(page):
    for path in re.findall(rf"`([\w./-]+/[\w.-]+\.(?:{SUFFIXES})|scripts/\w+)`", prose(page)):
        if "NAME" in path or path.startswith(("/", "report/")):  # such a path is not a file of the repository
            continue
        assert any((base / path).exists() for base in [page.parent, *BASES]), f"{name(page)} names {path}"


def test_each_step_of_the_ladder_has_a_section_and_picture():
    page = (LADDER / "README.md").read_text(encoding="utf-8")
    steps = range(1, reference.own_kernels("gpu").index("tensor-core") + 1)  # tensor-core is not a step
    for step in steps:
        assert list(LADDER.glob(f"{step:02d}_*")) and f"\n## {step}. " in page
        (picture,) = re.findall(rf"!\[Step {step}\]\((pictures/{step:02d}_\w+\.svg)\)", page)
        assert ElementTree.parse(LADDER / picture).getroot().get("viewBox"), picture
    assert len(list((LADDER / "pictures").iterdir())) == len(steps)


def test_rooms_include_only_the_rooms_in_the_table():
    said = {}
    for cells in rows(OPS / "README.md"):
        room = re.match(r"\[([\w/]+)/\]\(", cells[0])
        if room and len(cells) == 3:
            said[room.group(1)] = set(re.findall(r"`([\w/]+)`", cells[2]))
    # No file of submission/ is compiled into the library.
    inside = [path for path in OPS.rglob("*") if OPS / "submission" not in path.parents]
    sources = [path for path in inside if path.suffix in (".cpp", ".h", ".cu", ".cuh")]
    assert set(said) == {str(path.parent.relative_to(OPS)) for path in sources}
    for path in sources:
        room, text = str(path.parent.relative_to(OPS)), path.read_text(encoding="utf-8")
        for include in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            other = str(Path(include).parent)
            assert other in (".", room) or other in said[room], f"{name(path)} includes {include}"
        assert room == "mxnet" or "lib_api.h" not in text, name(path)


COMMANDS = [
    (page.name, line.strip().partition("#")[0].partition(">")[0])
    for page in [ROOT / "README.md", ROOT / "docs" / "your-kernel.md", ROOT / "docs" / "profile.md"]
    for line in page.read_text(encoding="utf-8").splitlines()
    if re.match(r"    fashion-infer ", line)
]


@pytest.mark.parametrize("page, line", COMMANDS)
def test_commands_of_a_page_parse(page, line):
    parsed(shlex.split(line)[1:])


@pytest.fixture
def script():
    """A function that runs a Python file of scripts/ and returns its definitions."""
    return lambda name: runpy.run_path(str(ROOT / "scripts" / f"{name}.py"))


def test_tables_and_the_ladders_picture_are_up_to_date(script):
    ladder = script("draw_ladder")
    for page in ladder["PAGES"]:
        text = page.read_text(encoding="utf-8")
        assert text.count("by scripts/draw_ladder.py -->") > 0 and ladder["with_tables"](text) == text
    drawn = ladder["picture"](ladder["measured"]("kernels"))
    assert (ROOT / "docs" / "ladder.svg").read_text(encoding="utf-8") == drawn, "run scripts/write_measured.py"


def test_the_page_of_kernels_is_up_to_date(script, tmp_path):
    script("write_measured")["write_kernels"](tmp_path)
    page = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    assert page == (tmp_path / "kernels.md").read_text(encoding="utf-8"), "run scripts/write_measured.py"
    drawn = (ROOT / "docs" / "kernels.svg").read_text(encoding="utf-8")  # coordinates may differ
    for case in json.loads((ROOT / "docs" / "kernels.json").read_text(encoding="utf-8"))["cases"]:
        for row in case["rows"]:
            assert row["kind"] == "limit" or row["median_ms"] is None or f">{row['median_ms']:.3g}<" in drawn
