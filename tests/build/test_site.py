"""The documentation site has all pages, builds without warnings and needs no network.

The tests are skipped without the extra `docs`.
"""

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import profiles
import pytest
from command_line import walked

import fashion_infer
from fashion_infer.inference.layer_times import LayerResult
from fashion_infer.request import Request
from fashion_infer.result import Result

ROOT = Path(__file__).resolve().parents[2]

VIEWS = profiles.drawn([(width, scheme) for width in (390, 1280) for scheme in ("light", "dark")], 1)

no_checkout = pytest.mark.skipif(not (ROOT / "mkdocs.yml").exists(), reason="needs the checkout")
pytestmark = [no_checkout, pytest.mark.slow]


def build(root, out):
    """Build the site of the tree `root` in the folder `out`, as `make docs` does; return the finished process."""
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=str(root), env=environment, capture_output=True, text=True)


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT, out)
    assert done.returncode == 0, done.stderr
    return out


def test_the_site_has_every_page_of_the_repository(site):
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("custom_ops/**/*.md"), *ROOT.glob("models/*.md")]
    for page in pages:
        place = page.relative_to(ROOT).with_suffix(".html")
        assert (site / (place.with_name("index.html") if page.name == "README.md" else place)).exists(), page


def test_pages_load_nothing_from_other_hosts(site):
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=.?(?:https?:)?//[^>]*", text), path


def test_reference_has_every_command_and_option(site):
    text = re.sub(r"<[^>]+>", "", (site / "reference" / "commands.html").read_text(encoding="utf-8"))
    for words, command in walked():
        assert " ".join(["fashion-infer", *words]) in text
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[0] in text, (words, option.opts)


@pytest.mark.parametrize("header, page", [("fashion_ops.h", "c.html"), ("fashion_ops_plugin.h", "plugin.html")])
def test_reference_has_every_declaration(site, header, page):
    source = (ROOT / "custom_ops" / "include" / header).read_text(encoding="utf-8")
    headings = " ".join(re.findall(r"<h3.*?</h3>", (site / "reference" / page).read_text(encoding="utf-8")))
    declared = re.findall(r"^FOPS_API [^(]*?(\w+)\(|^typedef struct (\w+) \w+;|^\} (\w+);", source, re.MULTILINE)
    names = {name for group in declared for name in group if name}
    assert names and [name for name in sorted(names) if f"<code>{name}</code>" not in headings] == []


def test_reference_has_what_the_package_exports(site):
    text = (site / "reference" / "python.html").read_text(encoding="utf-8")
    for name in ("api.infer", "result.Result", "result.Result.op_times", "errors.DataError"):
        assert f'id="fashion_infer.{name}"' in text
    headings = set(re.findall(r'<h\d id="fashion_infer[\w.]*\.(\w+)"', text))
    assert set(fashion_infer.__all__) - headings == {"__version__"} and "__version__" in text
    for name in (*(field.name for field in dataclasses.fields(Request)), *Result._fields, *LayerResult._fields):
        assert f"<code>{name}</code>" in text


@pytest.mark.parametrize("width, scheme", VIEWS)
def test_in_a_browser_from_disk(new_page, site, width, scheme):
    page = new_page(width, scheme)
    for name in ("index.html", "docs/tutorial.html", "docs/kernels.html", "reference/commands.html"):
        page.goto((site / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        cut = page.evaluate("[...document.querySelectorAll('pre > code')].some(e => e.scrollWidth > e.clientWidth)")
        assert not cut or width < 1280 or name not in ("index.html", "docs/tutorial.html")
    page.click("label[for=__search]" if width < 900 else "[name=query]")
    page.locator("[name=query]").press_sequentially("roofline")
    page.click("a.md-search-result__link >> nth=0")
    page.wait_for_url("**/docs/*.html*")
    assert [url for url in page.asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    assert page.said == []
