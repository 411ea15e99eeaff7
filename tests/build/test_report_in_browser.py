"""The report in headless Chromium. The tests are skipped without Chromium or playwright.

Screenshots of the report at the tested widths, in both colour schemes, are kept in build/screenshots/.
"""

import json
from pathlib import Path

import profiles
import pytest
from chromium import LOW_CONTRAST

from fashion_infer.bench import records
from fashion_infer.present.report import pages

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"
WIDTHS, SCHEMES = (360, 768, 1280, 1920), ("light", "dark")


# The browser is requested first, so that tests are skipped without one before a report is made.
pytestmark = [pytest.mark.usefixtures("browser"), pytest.mark.slow]


@pytest.fixture
def opened(new_page, small_report):
    def open_(width=1000, scheme="light", address=None, **options):
        page = new_page(width, scheme, **options)
        page.goto(address or small_report.page.as_uri(), wait_until="networkidle")
        return page

    return open_


def column(table, number):
    return table.locator(f"tbody td:nth-child({number})").all_inner_texts()


def test_the_page_loads_without_errors_or_further_requests(opened, small_report):
    page = opened()
    page.locator("#ladder th button").first.click()
    assert not page.said
    assert [url for url in page.asked if not url.startswith("data:")] == [small_report.page.as_uri()]
    assert page.title() == "fashion-infer report"


def test_every_chart_is_visible_and_has_alt_text(opened):
    page = opened()
    page.locator("summary", has_text="Misclassified images").click()
    charts = page.locator("[role=img]").all()
    assert len(charts) == 5
    for chart in charts:
        assert len(chart.get_attribute("aria-label")) > 20
        box = chart.locator("svg").bounding_box()
        assert box["width"] > 300 and box["height"] > 100
    sheet = page.locator("#mistakes svg image")
    assert sheet.count() == 1 and sheet.bounding_box()["width"] > 300


def test_tables_sort_by_numbers_and_by_text(opened):
    page = opened()
    table = page.locator("#op-times table").first
    headers = table.locator("th")
    before = column(table, 2)
    headers.nth(1).locator("button").click()
    assert column(table, 2) == sorted(before, key=float)
    assert headers.nth(1).get_attribute("aria-sort") == "ascending"
    headers.nth(1).locator("button").click()
    assert column(table, 2) == sorted(before, key=float, reverse=True)
    assert headers.nth(1).get_attribute("aria-sort") == "descending"
    headers.nth(0).locator("button").click()
    assert column(table, 1) == sorted(column(table, 1))
    assert [header.get_attribute("aria-sort") for header in headers.all()] == ["ascending", *["none"] * 6]


def test_empty_cells_stay_at_the_end(opened):
    page = opened()
    table = page.locator("#ladder table").first
    names = [name.strip() for name in table.locator("th").all_inner_texts()]
    place = names.index("step") + 1
    button = table.locator("th button").nth(place - 1)
    button.click()
    steps = column(table, place)
    numbers = [step for step in steps if step]
    assert numbers == [str(step) for step in range(1, len(numbers) + 1)] and steps[: len(numbers)] == numbers
    button.click()
    steps = column(table, place)
    assert steps[: len(numbers)] == numbers[::-1] and not any(steps[len(numbers) :])


@pytest.fixture(scope="session")
def gpu_page(small_report, tmp_path_factory):
    """The path of a report as a GPU machine writes it: the small report, with the GPU benchmarks from docs/."""
    names = ("kernels.json", "results-gpu.json")
    kernels, networks = (records.restored(json.loads((ROOT / "docs" / name).read_text("utf-8"))) for name in names)
    kernels.cases = [case for case in kernels.cases if case.edition == "fa2019"]
    networks.cases = [case for case in networks.cases if case.batch != 16]
    networks.batches.remove(16)
    ceilings = {"fill_gb_s": 4654.0, "copy_gb_s": 4237.0, "fp32_tflop_s": 51.2, "fp16_tflop_s": 760.0}
    found = {"convolutions": kernels, "networks": networks, "ceilings": ceilings, "backend": "gpu", "no_gpu": ""}
    folder = tmp_path_factory.mktemp("gpu")
    return folder / pages.write(folder, small_report.measured._replace(**found), "report/")


@pytest.fixture(params=["cpu", "gpu"])
def address(request, small_report, gpu_page):
    return (small_report.page if request.param == "cpu" else gpu_page).as_uri()


# Each run draws one of the views.
VIEWS = profiles.drawn([(width, scheme) for width in WIDTHS for scheme in SCHEMES], 1)


@pytest.mark.parametrize("width, scheme", VIEWS)
def test_nothing_is_cut_off(opened, address, width, scheme):
    """No page scrolls sideways, from 1,280 pixels on all tables and charts are whole, and text has enough contrast."""
    page = opened(width, scheme, address)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    kind = "gpu" if "gpu" in address else "cpu"
    page.screenshot(path=SCREENSHOTS / f"report-{kind}-{width}-{scheme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for details in page.locator("details").all():
        details.evaluate("element => { element.open = true; }")
    cut = "boxes => boxes.filter(b => b.scrollWidth > b.clientWidth).map(b => b.getAttribute('aria-label'))"
    assert width < 1280 or page.locator(".wide, .picture").evaluate_all(cut) == []
    # Medians are visible without scrolling, and errors from 768 pixels on.
    for name, least in (("median ms", 0), ("% of floor", 0), ("error", 768)):
        headers = page.locator("th", has_text=name).all()
        assert headers or name == "% of floor"  # which does not apply to small batches
        for header in headers:
            box, around = header.bounding_box(), header.locator("xpath=ancestor::div[1]").bounding_box()
            assert width < least or box["x"] + box["width"] <= around["x"] + around["width"], name
    assert page.evaluate(LOW_CONTRAST) == []


@pytest.mark.parametrize("width, scheme", VIEWS)
def test_axe_finds_nothing(opened, address, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(width, scheme, address, bypass_csp=True)
    for details in page.locator("details").all():
        details.evaluate("element => { element.open = true; }")
    found = axe.Axe().run(page, options={"resultTypes": ["violations"]})
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("scheme", profiles.drawn(SCHEMES, 1))
def test_charts_keep_their_own_styles(opened, address, scheme):
    """A shape without its style would be black, which the palette lacks; a label would have the page's size."""
    page = opened(scheme=scheme, address=address)
    shapes = """shapes => shapes.map(e => getComputedStyle(e)).map(s => [s.fill, s.stroke])"""
    fills = page.locator(".picture svg :is(path:not(defs path), use)").evaluate_all(shapes)
    assert len(fills) > 50 and not [pair for pair in fills if pair[0] == "rgb(0, 0, 0)"]
    sizes = """texts => texts.map(e => parseFloat(getComputedStyle(e).fontSize))"""
    assert {4 < size <= 12 for size in page.locator(".picture svg text").evaluate_all(sizes)} == {True}
    # Open paths are the lines between points, which are not filled.
    lines = "[d]:not([d*='z' i]):not(defs path)"
    joined = page.locator(f".picture svg path:is({lines})").evaluate_all(shapes)
    assert len(joined) > 20 and {fill for fill, _ in joined} == {"none"}
    assert len({stroke for _, stroke in joined} - {"none"}) >= 3


def test_a_command_is_copied_completely(opened):
    page = opened(permissions=["clipboard-read", "clipboard-write"])
    command = page.locator(".command").nth(1)
    command.get_by_role("button").click()
    command.get_by_text("Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("fashion-infer verify --") and copied == command.locator("code").text_content()


def test_a_command_that_cannot_be_copied_is_selected(opened):
    page = opened()
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    command = page.locator(".command").first
    command.get_by_role("button").click()
    command.get_by_text("Selected").wait_for()
    assert page.evaluate("getSelection().toString()").split() == command.locator("code").text_content().split()


def test_a_printed_page_is_light(opened):
    page = opened(scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("svg text").first.evaluate("text => getComputedStyle(text).fill") == "rgb(31, 35, 40)"
    assert not page.locator("nav").is_visible() and not page.get_by_role("button", name="Copy").first.is_visible()


def test_tables_are_visible_without_javascript(opened):
    page = opened(java_script_enabled=False)
    assert page.locator("#ladder td").first.is_visible() and not page.said
